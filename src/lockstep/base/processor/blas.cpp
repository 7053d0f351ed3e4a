#include "lockstep/base/processor/blas.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <memory>

namespace lockstep {
namespace {

template <typename Function>
Function* loaded(const char* symbol) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, symbol));
}

// The file behind `symbol`, with Debian's chain of alternatives resolved.
std::string file_of(void* symbol) {
  Dl_info info{};
  if (::dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "";
  const std::unique_ptr<char, decltype(&::free)> resolved(::realpath(info.dli_fname, nullptr), ::free);
  return resolved ? resolved.get() : info.dli_fname;
}

// Debian keeps Netlib's library in a folder of this name. The symbols alone are not enough: another library of the
// process may have loaded OpenBLAS while products still use the reference.
bool is_netlib(const std::string& path) { return path.find("/blas/libblas.so") != std::string::npos; }

}  // namespace

BlasLibrary loaded_blas() {
  BlasLibrary blas;
  void* const product = ::dlsym(RTLD_DEFAULT, "sgemm_");
  if (product == nullptr) {
    blas.name = "none";
    return blas;
  }
  blas.path = file_of(product);
  blas.name = "reference";
  if (is_netlib(blas.path)) return blas;
  if (auto* config = loaded<char*()>("openblas_get_config")) {
    blas.name = "OpenBLAS";
    blas.description = config();
    if (auto* threads = loaded<int()>("openblas_get_num_threads")) blas.num_threads = threads();
  } else if (auto* mkl_threads = loaded<int()>("MKL_Get_Max_Threads")) {
    blas.name = "MKL";
    blas.num_threads = mkl_threads();
  } else if (auto* version = loaded<const char*()>("bli_info_get_version_str")) {
    blas.name = "BLIS";
    blas.description = version();
  } else if (::dlsym(RTLD_DEFAULT, "ATL_buildinfo") != nullptr) {
    blas.name = "ATLAS";
  }
  return blas;
}

}  // namespace lockstep
