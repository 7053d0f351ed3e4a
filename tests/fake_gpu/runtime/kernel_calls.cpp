// Functions of the CUDA runtime that make kernels known and launch them. There is no kernel here: what LibTorch would
// launch is done by its kernels for the CPU (tests/fake_gpu/kernels). A launch that gets here says which kernel is
// missing.
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "tests/fake_gpu/runtime/calls.h"

namespace fake_gpu {
namespace {

std::mutex kernel_mutex;
std::map<const void*, std::string>& kernel_names() {
  static auto* const names = new std::map<const void*, std::string>;
  return *names;
}

cudaError_t refuse_launch(const void* kernel) {
  const std::lock_guard<std::mutex> lock(kernel_mutex);
  const auto found = kernel_names().find(kernel);
  std::fprintf(stderr, "[fake GPU] no kernel runs here, and this one has no substitute: %s\n",
               found == kernel_names().end() ? "?" : found->second.c_str());
  return with_error(cudaErrorNoKernelImageForDevice);
}

}  // namespace
}  // namespace fake_gpu

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle[1];
  return handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const std::lock_guard<std::mutex> lock(fake_gpu::kernel_mutex);
  fake_gpu::kernel_names()[host] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*) { return 0; }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) { return cudaSuccess; }

// CUDA 13's compiler launches by a handle of the kernel; the function's address serves as one.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return fake_gpu::refuse_launch(kernel);
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return fake_gpu::refuse_launch(kernel);
}
cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return fake_gpu::refuse_launch(kernel);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* kernel, void**) {
  return fake_gpu::refuse_launch(kernel);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->binaryVersion = attributes->ptxVersion = 80;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, std::size_t,
                                                                   unsigned) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, std::size_t) {
  *blocks = 1;
  return cudaSuccess;
}

}  // extern "C"
