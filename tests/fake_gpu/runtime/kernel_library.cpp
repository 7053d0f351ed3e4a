#include "tests/fake_gpu/runtime/kernel_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "tests/fake_gpu/runtime/stream.h"

namespace fake_gpu {

void load_kernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    // After LibTorch was loaded, so this runs before its own statics are destroyed.
    std::atexit(&stop_streams);
    if (::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD) == nullptr) return;
    Dl_info here;
    if (::dladdr(reinterpret_cast<void*>(&load_kernels), &here) == 0) return;
    std::string path = here.dli_fname;
    path = path.substr(0, path.rfind('/') + 1) + "libfake_gpu_kernels.so";
    if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
    std::fprintf(stderr, "[fake GPU] %s\n", ::dlerror());
    std::abort();
  });
}

}  // namespace fake_gpu
