/* Where CUPTI's records and callback data have what the recorder reads: numbers of its documented ABI, without its headers.
 *
 * tests/record/test_cupti_layout.py compiles these beside NVIDIA's headers; those of CUDA 11.8, 12.1, 12.9, 13.0 and 13.5 agree
 * (CUpti_ActivityKernel8 to 13: what is newer is appended). CUPTI before 11.8 has shorter records and is not used.
 */
#ifndef GPUSIM_RECORD_CUPTI_LAYOUT_H
#define GPUSIM_RECORD_CUPTI_LAYOUT_H

enum { LEAST_CUPTI_VERSION = 18 }; /* CUPTI_API_VERSION of CUDA 11.8 */
enum { ACTIVITY_KERNEL = 3, ACTIVITY_CONCURRENT_KERNEL = 10, FLUSH_FORCED = 1 };
/* CUpti_ActivityKernel8 and later */
enum { KIND_AT = 0, REGISTERS_AT = 6, START_AT = 16, END_AT = 24, DEVICE_AT = 40, STREAM_AT = 48, SHAPE_AT = 52, STATIC_AT = 76,
       DYNAMIC_AT = 80, CORRELATION_AT = 92, NAME_AT = 104, GRAPH_NODE_AT = 144, GRAPH_AT = 156, RECORD_BYTES = 200 };
/* CUpti_CallbackData */
enum { SITE_AT = 0, PARAMETERS_AT = 16, RESULT_AT = 24, SYMBOL_AT = 32, CALL_CORRELATION_AT = 64, SITE_ENTER = 0, SITE_EXIT = 1 };
enum { DOMAIN_DRIVER = 1 };
/* CUpti_driver_api_trace_cbid; _PTSZ: the function for per-thread default streams */
enum { CALL_LAUNCH = 307, CALL_LAUNCH_PTSZ = 442, CALL_COOPERATIVE = 477, CALL_COOPERATIVE_PTSZ = 478, CALL_GRAPH = 514,
       CALL_GRAPH_PTSZ = 515, CALL_LAUNCH_EX = 652, CALL_LAUNCH_EX_PTSZ = 653 };
enum { CALL_CAPTURE = 539, CALL_CAPTURE_PTSZ = 540, CALL_CAPTURE_ENDS = 497, CALL_CAPTURE_ENDS_PTSZ = 498 };
/* of CUDA 12.3 and later */
enum { CALL_CAPTURE_TO = 720, CALL_CAPTURE_TO_PTSZ = 721 };
#endif
