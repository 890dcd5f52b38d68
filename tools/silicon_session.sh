#!/bin/sh
# One part of recording a GPU that is lent for a short time: each part is a command of at most ten minutes.
#
#   tools/silicon_session.sh PART OUT [CUBINS]
#
# PART   look     what works there: gpusim doctor, some kernels by every method
#        cupti    the pinned suites by CUPTI's records of kernels, cold and warm
#        events   the pinned suites by CUDA events, cold and warm
#        ncu      the pinned suites by Nsight Compute: cycles and counters
#        curves   the curves that isolate one parameter of the machine each, by CUDA events
#        questions  the launches that answer the open questions of the timing model (tools/silicon_questions.py), by CUDA events
# OUT    folder for the rows; the next part (or the same one again) goes on from what lies there
# CUBINS pack of machine code (tools/record_silicon.py --pack), so that what is measured is what is simulated
#
# Run from the repository's root. No setting of the GPU is changed. Copy OUT/<gpu>/ to traces/silicon/<gpu>/ afterwards.
set -u
part=${1:?give a part: look, cupti, events, ncu, curves or questions}
out=${2:?give the folder for the rows}
cubins=${3:+--cubins $3}
python=${PYTHON:-python3}
seconds=${SECONDS_BUDGET:-480}
record="$python tools/record_silicon.py --out $out --budget $seconds $cubins"
mkdir -p "$out"
export PYTHONUNBUFFERED=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"

case $part in
look)
    $python -m gpusim.cli doctor || $python -m pip list 2>/dev/null
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw,temperature.gpu --format=csv
    $python -m gpusim.cli measure saxpy reduce_sum:n=262144 matmul_tiled:m=128,n=128,k=128 \
        --budget 30 --method all $cubins -o "$out/look.jsonl" --record-session "$out/look.session"
    $record --list | wc -l
    ;;
cupti) $record --method cupti ;;
events) $record --method events ;;
ncu) $record --method ncu ;;
curves)
    $record --method events --suite latency --suite pipes --suite sm --suite bandwidth --suite dispatch
    ;;
questions) $record --method events --suite questions ;;
*)
    echo "error: there is no part $part: look, cupti, events, ncu, curves or questions" >&2
    exit 2
    ;;
esac
