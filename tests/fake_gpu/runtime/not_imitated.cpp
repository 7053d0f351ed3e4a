// Functions of the CUDA runtime that LibTorch can call and that are not imitated: they say so, and return
// cudaErrorNotSupported.
#include "tests/fake_gpu/runtime/not_imitated.h"

#define NOT_IMITATED(name) REFUSED_CALL(name, 801)
NOT_IMITATED(cudaDeviceGetDefaultMemPool)
NOT_IMITATED(cudaDeviceGetGraphMemAttribute)
NOT_IMITATED(cudaDeviceSetGraphMemAttribute)
NOT_IMITATED(cudaFreeAsync)
NOT_IMITATED(cudaGetSymbolAddress)
NOT_IMITATED(cudaGraphAddNode)
NOT_IMITATED(cudaGraphConditionalHandleCreate)
NOT_IMITATED(cudaGraphDebugDotPrint)
NOT_IMITATED(cudaGraphGetNodes)
NOT_IMITATED(cudaGraphInstantiate)
NOT_IMITATED(cudaGraphInstantiateWithFlags)
NOT_IMITATED(cudaGraphLaunch)
NOT_IMITATED(cudaGraphNodeGetDependencies)
NOT_IMITATED(cudaGraphRetainUserObject)
NOT_IMITATED(cudaIpcCloseMemHandle)
NOT_IMITATED(cudaIpcGetEventHandle)
NOT_IMITATED(cudaIpcGetMemHandle)
NOT_IMITATED(cudaIpcOpenEventHandle)
NOT_IMITATED(cudaIpcOpenMemHandle)
NOT_IMITATED(cudaKernelSetAttributeForDevice)
NOT_IMITATED(cudaLibraryGetGlobal)
NOT_IMITATED(cudaLibraryGetKernel)
NOT_IMITATED(cudaLibraryGetKernelCount)
NOT_IMITATED(cudaLibraryGetManaged)
NOT_IMITATED(cudaLibraryGetUnifiedFunction)
NOT_IMITATED(cudaLibraryLoadData)
NOT_IMITATED(cudaLibraryLoadFromFile)
NOT_IMITATED(cudaLibraryUnload)
NOT_IMITATED(cudaMallocAsync)
NOT_IMITATED(cudaMallocManaged)
NOT_IMITATED(cudaMemPoolGetAttribute)
NOT_IMITATED(cudaMemPoolSetAccess)
NOT_IMITATED(cudaMemPoolSetAttribute)
NOT_IMITATED(cudaMemPoolTrimTo)
NOT_IMITATED(cudaMemcpyToSymbol)
NOT_IMITATED(cudaProfilerStart)
NOT_IMITATED(cudaProfilerStop)
NOT_IMITATED(cudaStreamBeginCaptureToGraph)
NOT_IMITATED(cudaStreamUpdateCaptureDependencies)
NOT_IMITATED(cudaUserObjectCreate)
NOT_IMITATED(cudaUserObjectRelease)

// A capture that failed destroys its graph.
extern "C" int cudaGraphDestroy() { return 0; }
extern "C" int cudaGraphExecDestroy() { return 0; }

// Functions of the driver are asked for by name: none is there. LibTorch asks for those of virtual memory only if a
// program chooses expandable segments.
extern "C" int cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                                int* status) {
  *function = nullptr;
  if (status != nullptr) *status = 1;  // cudaDriverEntryPointSymbolNotFound
  return 0;
}
extern "C" int cudaGetDriverEntryPoint(const char*, void** function, unsigned long long, int* status) {
  return cudaGetDriverEntryPointByVersion(nullptr, function, 0, 0, status);
}
