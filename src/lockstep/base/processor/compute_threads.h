#pragma once

#include <cstddef>
#include <vector>

namespace lockstep {

/// How the cores of this process are shared among replicas that compute side by side.
struct ComputeShare {
  int threads = 1;                      ///< threads of each replica
  std::vector<std::vector<int>> cores;  ///< cores of each replica; empty if the kernel decides
};

/// An even share of the cores: each replica gets cores of the calling thread's affinity mask that share caches. If
/// there are fewer cores than replicas, or a container's quota limits time and not cores, no core is assigned.
/// @param threads  of each replica; 0: physical cores / replicas, but at most what OpenMP would use in the calling
/// thread
ComputeShare share_cores_of_process(std::size_t replicas, int threads, bool pin);

/// Threads that OpenMP uses in the calling thread; 0 if no OpenMP is loaded.
int openmp_threads();
/// Sets the OpenMP threads of the calling thread only. Does nothing if no OpenMP is loaded.
void set_openmp_threads(int threads);
/// Sets the threads of OpenBLAS, for the whole process. Does nothing if it is not loaded.
void set_blas_threads(int threads);

/// While an object of this class lives, matrix products in different threads run beside each other.
///
/// OpenBLAS has one number of threads for the process, and its build with threads of its own (Debian's default)
/// computes one product at a time unless that number is 1, so this class sets it to 1. In the build with OpenMP, and in
/// MKL, the calling thread's OpenMP setting applies, so nothing needs to be done.
class SideBySideProducts {
 public:
  SideBySideProducts();
  ~SideBySideProducts();
  SideBySideProducts(const SideBySideProducts&) = delete;
  SideBySideProducts& operator=(const SideBySideProducts&) = delete;
};

}  // namespace lockstep
