/* Compiled beside NVIDIA's own headers: what the recorder takes for granted of them. */
#include <cuda.h>
#include <cupti.h>
#include <stddef.h>
#include "cupti_layout.h"

#define AT(type, field, where) _Static_assert(offsetof(type, field) == where, #type "." #field)
AT(KERNEL, kind, KIND_AT);
AT(KERNEL, registersPerThread, REGISTERS_AT);
AT(KERNEL, start, START_AT);
AT(KERNEL, end, END_AT);
AT(KERNEL, deviceId, DEVICE_AT);
AT(KERNEL, streamId, STREAM_AT);
AT(KERNEL, gridX, SHAPE_AT);
AT(KERNEL, gridZ, SHAPE_AT + 8);
AT(KERNEL, blockX, SHAPE_AT + 12);
AT(KERNEL, blockZ, SHAPE_AT + 20);
AT(KERNEL, staticSharedMemory, STATIC_AT);
AT(KERNEL, dynamicSharedMemory, DYNAMIC_AT);
AT(KERNEL, correlationId, CORRELATION_AT);
AT(KERNEL, name, NAME_AT);
AT(KERNEL, graphNodeId, GRAPH_NODE_AT);
AT(KERNEL, graphId, GRAPH_AT);
_Static_assert(sizeof(KERNEL) >= RECORD_BYTES, "a record is as long as what is read");
_Static_assert(sizeof(((KERNEL *)0)->registersPerThread) == 2 && sizeof(((KERNEL *)0)->start) == 8 && sizeof(((KERNEL *)0)->graphId) == 4, "sizes");
AT(CUpti_CallbackData, callbackSite, SITE_AT);
AT(CUpti_CallbackData, functionParams, PARAMETERS_AT);
AT(CUpti_CallbackData, functionReturnValue, RESULT_AT);
AT(CUpti_CallbackData, symbolName, SYMBOL_AT);
AT(CUpti_CallbackData, correlationId, CALL_CORRELATION_AT);
/* The parameters of launches, as callbacks.c declares them. */
AT(cuLaunchKernel_params, f, 0);
AT(cuLaunchKernel_params, gridDimX, 8);
AT(cuLaunchKernel_params, blockDimX, 20);
AT(cuLaunchKernel_params, sharedMemBytes, 32);
AT(cuLaunchKernel_params, hStream, 40);
AT(cuLaunchCooperativeKernel_params, f, 0);
AT(cuLaunchCooperativeKernel_params, sharedMemBytes, 32);
AT(cuLaunchCooperativeKernel_params, hStream, 40);
AT(cuLaunchKernelEx_params, config, 0);
AT(cuLaunchKernelEx_params, f, 8);
AT(CUlaunchConfig, gridDimX, 0);
AT(CUlaunchConfig, blockDimX, 12);
AT(CUlaunchConfig, sharedMemBytes, 24);
AT(CUlaunchConfig, hStream, 32);
AT(cuGraphLaunch_params, hStream, 8);
#define IS(name, value) _Static_assert(name == value, #name)
IS(CUPTI_ACTIVITY_KIND_KERNEL, ACTIVITY_KERNEL);
IS(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, ACTIVITY_CONCURRENT_KERNEL);
IS(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, FLUSH_FORCED);
IS(CUPTI_API_ENTER, SITE_ENTER);
IS(CUPTI_API_EXIT, SITE_EXIT);
IS(CUPTI_CB_DOMAIN_DRIVER_API, DOMAIN_DRIVER);
#define CALLED(name, number) IS(CUPTI_DRIVER_TRACE_CBID_##name, number)
CALLED(cuLaunchKernel, CALL_LAUNCH);
CALLED(cuLaunchKernel_ptsz, CALL_LAUNCH_PTSZ);
CALLED(cuLaunchCooperativeKernel, CALL_COOPERATIVE);
CALLED(cuLaunchCooperativeKernel_ptsz, CALL_COOPERATIVE_PTSZ);
CALLED(cuGraphLaunch, CALL_GRAPH);
CALLED(cuGraphLaunch_ptsz, CALL_GRAPH_PTSZ);
CALLED(cuLaunchKernelEx, CALL_LAUNCH_EX);
CALLED(cuLaunchKernelEx_ptsz, CALL_LAUNCH_EX_PTSZ);
CALLED(cuStreamBeginCapture_v2, CALL_CAPTURE);
CALLED(cuStreamBeginCapture_v2_ptsz, CALL_CAPTURE_PTSZ);
CALLED(cuStreamEndCapture, CALL_CAPTURE_ENDS);
CALLED(cuStreamEndCapture_ptsz, CALL_CAPTURE_ENDS_PTSZ);
#if CUPTI_API_VERSION > 22
CALLED(cuStreamBeginCaptureToGraph, CALL_CAPTURE_TO);
CALLED(cuStreamBeginCaptureToGraph_ptsz, CALL_CAPTURE_TO_PTSZ);
#endif
