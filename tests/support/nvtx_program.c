/* Launches within ranges that NVIDIA's own header pushes: plain, in a domain with a registered text, nested, and after all have ended. */
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stddef.h>

typedef int (*launch_type)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *module, *f;
    ((int (*)(void **, const void *))dlsym(driver, "cuModuleLoadData"))(&module, "//");
    ((int (*)(void **, void *, const char *))dlsym(driver, "cuModuleGetFunction"))(&f, module, "alpha");
    launch_type launch = (launch_type)dlsym(driver, "cuLaunchKernel");
#define LAUNCHES(count) for (int i = 0; i < count; i++) launch(f, 5, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL)
    nvtxRangePushA("step");
    LAUNCHES(1);
    nvtxDomainHandle_t domain = nvtxDomainCreateA("gpusim");
    nvtxEventAttributes_t attributes = {0};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = nvtxDomainRegisterStringA(domain, "forward");
    nvtxDomainRangePushEx(domain, &attributes);
    LAUNCHES(2);
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = "layer";
    nvtxRangePushEx(&attributes);
    LAUNCHES(4);
    nvtxRangePop();
    nvtxDomainRangePop(domain);
    LAUNCHES(8);
    nvtxRangePop();
    LAUNCHES(16);
    _Static_assert(NVTX_CBID_CORE_RangePushEx == 8 && NVTX_CBID_CORE_RangePushA == 9 && NVTX_CBID_CORE_RangePop == 11, "nvtx.c");
    _Static_assert(NVTX_CBID_CORE2_DomainRangePushEx == 4 && NVTX_CBID_CORE2_DomainRangePop == 5, "nvtx.c");
    _Static_assert(NVTX_CBID_CORE2_DomainRegisterStringA == 10 && NVTX_ETID_CALLBACKS == 1, "nvtx.c");
    _Static_assert(NVTX_CB_MODULE_CORE == 1 && NVTX_CB_MODULE_CORE2 == 5, "nvtx.c");
    _Static_assert(offsetof(nvtxEventAttributes_t, message) == 40 && offsetof(nvtxEventAttributes_t, messageType) == 32, "nvtx.c");
    return 0;
}
