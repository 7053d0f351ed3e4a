#pragma once

#include <cstddef>
#include <vector>

namespace lockstep {

/// How the cores of this process are shared among replicas that compute side by side.
struct ComputeShare {
  int threads = 1;                      ///< of each replica
  std::vector<std::vector<int>> cores;  ///< of each; empty where the kernel decides
};

/// An even share of the cores: cores of the calling thread's affinity mask that share caches for each replica. Where
/// there are fewer cores than replicas, or a container's quota counts time and not cores, no core is assigned.
/// @param threads   of each replica; 0: physical cores / replicas, and not more than OpenMP would use in the calling
/// thread
ComputeShare share_cores_of_process(std::size_t replicas, int threads, bool pin);

/// Threads that OpenMP uses in the calling thread; 0 where no OpenMP is loaded.
int openmp_threads();
/// Sets that for the calling thread alone. Nothing where no OpenMP is loaded.
void set_openmp_threads(int threads);

/// While one lives, products of matrices in different threads run beside each other.
///
/// OpenBLAS has one number of threads for the process, and the build with threads of its own (Debian's default)
/// computes one product at a time unless that number is 1: it is 1 while one lives. In the build with OpenMP, and in
/// MKL, the calling thread's OpenMP setting holds, so there is nothing to do.
class SideBySideProducts {
 public:
  SideBySideProducts();
  ~SideBySideProducts();
  SideBySideProducts(const SideBySideProducts&) = delete;
  SideBySideProducts& operator=(const SideBySideProducts&) = delete;
};

}  // namespace lockstep
