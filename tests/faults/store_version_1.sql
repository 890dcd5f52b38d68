PRAGMA application_id=1735422829;
BEGIN TRANSACTION;
CREATE TABLE gpusim_store (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "gpusim_store" VALUES(1);
CREATE TABLE launches (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	kernel TEXT NOT NULL, 
	shape TEXT NOT NULL, 
	launch INTEGER NOT NULL, 
	function TEXT NOT NULL, 
	gpu TEXT NOT NULL, 
	gpu_hash TEXT NOT NULL, 
	cubin_hash TEXT NOT NULL, 
	trace_hash TEXT NOT NULL, 
	cycles BIGINT NOT NULL, 
	clock_hz FLOAT NOT NULL, 
	facts TEXT NOT NULL, 
	stalls TEXT NOT NULL, 
	counters TEXT NOT NULL, 
	least_cycles TEXT NOT NULL, 
	instructions BLOB NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "launches" VALUES(1,1,'kérnel','n=64',0,'kernel','h200','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc',1000,1980000000.0,'{"grid": [2, 1, 1], "block": [64, 2, 1], "registers_per_thread": 16, "shared_bytes": 128}','{"selected": 8, "long_scoreboard": 90}','{"sm__cycles_elapsed.max": 1000.0, "dram__bytes_read.sum": 0.5}','{"issue": 2.5}',X'789C25CCB10AC2301804E05729FF7C84A48688CE962238150721FC845A83836D234944457C77A34E777C1CF7A2B99F7CA2B5A58BB83E0994FCE887EC4FA58E613EBB3484E88FA18F3F51D93F9CCB2E954D8849A4DB54981814C3FD7B63252496A0DDA6154DD5D5A86CA785D14CB00A1A355692611750864B2A534C829AC376FF5F1464E6F70784AC2CBA');
INSERT INTO "launches" VALUES(2,1,'kérnel','n=64',1,'kernel','h200','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc',2000,1980000000.0,'{"grid": [2, 1, 1], "block": [64, 2, 1], "registers_per_thread": 16, "shared_bytes": 128}','{"selected": 8, "long_scoreboard": 90}','{"sm__cycles_elapsed.max": 2000.0, "dram__bytes_read.sum": 0.5}','{"issue": 2.5}',X'789C25CCB10AC2301804E05729FF7C84A48688CE962238150721FC845A83836D234944457C77A34E777C1CF7A2B99F7CA2B5A58BB83E0994FCE887EC4FA58E613EBB3484E88FA18F3F51D93F9CCB2E954D8849A4DB54981814C3FD7B63252496A0DDA6154DD5D5A86CA785D14CB00A1A355692611750864B2A534C829AC376FF5F1464E6F70784AC2CBA');
CREATE TABLE measurements (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	kernel TEXT NOT NULL, 
	shape TEXT NOT NULL, 
	gpu TEXT NOT NULL, 
	cubin_hash TEXT NOT NULL, 
	method TEXT NOT NULL, 
	"row" TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "measurements" VALUES(1,1,'kernel','n=64','h200','','events','{"kernel": "kernel", "shape": "n=64", "launch": 0, "grid": [2, 1, 1], "block": null, "cubin_hash": "", "gpu": "h200", "device_name": "", "device_uuid_hash": "", "driver": "", "toolchain": "", "sm_clock_mhz": null, "memory_clock_mhz": null, "method": "events", "cache": "warm", "n": 3, "cycles": null, "time_us": {"median": 2.0, "low": 1.9, "high": 2.2}, "samples_us": [2.0, 1.9, 2.2], "counters": {"a.sum": 1.5}, "flags": ["clock_drift"], "date": "", "source": ""}');
INSERT INTO "measurements" VALUES(2,2,'kernel','n=64','h200','','events','{"kernel": "kernel", "shape": "n=64", "launch": 1, "grid": [2, 1, 1], "block": null, "cubin_hash": "", "gpu": "h200", "device_name": "", "device_uuid_hash": "", "driver": "", "toolchain": "", "sm_clock_mhz": null, "memory_clock_mhz": null, "method": "events", "cache": "warm", "n": 3, "cycles": null, "time_us": {"median": 2.0, "low": 1.9, "high": 2.2}, "samples_us": [2.0, 1.9, 2.2], "counters": {"a.sum": 1.5}, "flags": ["clock_drift"], "date": "", "source": ""}');
CREATE TABLE runs (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	state TEXT NOT NULL, 
	command TEXT NOT NULL, 
	arguments TEXT NOT NULL, 
	started TEXT NOT NULL, 
	finished TEXT NOT NULL, 
	gpusim_version TEXT NOT NULL, 
	model_hash TEXT NOT NULL, 
	host_hash TEXT NOT NULL, 
	environment TEXT NOT NULL
);
INSERT INTO "runs" VALUES(1,'base','finished','simulate','["saxpy"]','2026-11-21T14:13:22+00:00','2026-11-21T14:13:22+00:00','0.1.0','7d78402cd3024ab419fc24649f34239dddb0a902cd42c6c97c2b003c0d3a2230','5bce98f73f3ed0c8','{"python": "3.11.7", "system": "Linux", "machine": "x86_64", "cores": "2", "numba": "0.68.1", "numpy": "2.4.6", "llvmlite": "0.50.0", "simpy": "4.1.2", "numba-cuda": "0.30.4", "nvidia-nvjitlink": "13.5.37", "nvidia-cuda-nvdisasm": "13.5.37"}');
INSERT INTO "runs" VALUES(2,'open','open','measure','[]','2026-11-21T14:13:22+00:00','','0.1.0','7d78402cd3024ab419fc24649f34239dddb0a902cd42c6c97c2b003c0d3a2230','5bce98f73f3ed0c8','{"python": "3.11.7", "system": "Linux", "machine": "x86_64", "cores": "2", "numba": "0.68.1", "numpy": "2.4.6", "llvmlite": "0.50.0", "simpy": "4.1.2", "numba-cuda": "0.30.4", "nvidia-nvjitlink": "13.5.37", "nvidia-cuda-nvdisasm": "13.5.37"}');
CREATE INDEX ix_runs_name ON runs (name);
CREATE INDEX ix_launches_cubin_hash ON launches (cubin_hash);
CREATE INDEX ix_launches_run_id ON launches (run_id);
CREATE INDEX ix_measurements_cubin_hash ON measurements (cubin_hash);
CREATE INDEX ix_measurements_run_id ON measurements (run_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('runs',2);
COMMIT;
