#include "lockstep/base/processor/compute_threads.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>

#include "lockstep/base/processor/core_count.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

template <typename Function>
Function* loaded_function(const char* symbol) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, symbol));
}

// The result of openblas_get_parallel for a build.
constexpr int kOpenBlasOwnThreads = 1;

struct OpenBlas {
  int (*threads)() = loaded_function<int()>("openblas_get_num_threads");
  void (*set_threads)(int) = loaded_function<void(int)>("openblas_set_num_threads");
  bool has_own_threads = false;

  OpenBlas() {
    auto* parallel = loaded_function<int()>("openblas_get_parallel");
    has_own_threads =
        threads != nullptr && set_threads != nullptr && parallel != nullptr && parallel() == kOpenBlasOwnThreads;
  }
};

const OpenBlas& openblas() {
  static const OpenBlas library;
  return library;
}

// The state that all living SideBySideProducts share.
struct ProductState {
  std::mutex mutex;
  int users = 0;
  int threads_before = 0;
};

ProductState& product_state() {
  static ProductState state;
  return state;
}

}  // namespace

int openmp_threads() {
  static auto* const get = loaded_function<int()>("omp_get_max_threads");
  return get == nullptr ? 0 : get();
}

void set_blas_threads(int threads) {
  const OpenBlas& library = openblas();
  if (library.set_threads == nullptr) return;
  // In the build with OpenMP, setting frees memory that products of other threads may be using.
  if (library.threads == nullptr || library.threads() != threads) library.set_threads(threads);
}

void set_openmp_threads(int threads) {
  static auto* const set = loaded_function<void(int)>("omp_set_num_threads");
  if (set != nullptr) set(threads);
}

ComputeShare share_cores_of_process(std::size_t replicas, int threads, bool pin) {
  const std::vector<int> cores = cores_side_by_side(affinity_cores());
  const int count = static_cast<int>(std::max<std::size_t>(1, replicas));
  ComputeShare share;
  share.threads = threads > 0 ? threads : std::max(1, compute_cores() / count);
  if (threads <= 0 && openmp_threads() > 0) share.threads = std::min(share.threads, openmp_threads());
  const bool has_quota = available_cores() < static_cast<int>(cores.size());
  if (!pin || has_quota || count > static_cast<int>(cores.size())) return share;
  for (int i = 0; i < count; ++i) {
    const auto at = [&](int k) { return cores.begin() + static_cast<std::ptrdiff_t>(cores.size()) * k / count; };
    share.cores.emplace_back(at(i), at(i + 1));
  }
  return share;
}

SideBySideProducts::SideBySideProducts() {
  if (!openblas().has_own_threads) return;
  ProductState& state = product_state();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.users++ > 0) return;
  state.threads_before = openblas().threads();
  if (state.threads_before != 1) openblas().set_threads(1);
}

SideBySideProducts::~SideBySideProducts() {
  if (!openblas().has_own_threads) return;
  ProductState& state = product_state();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (--state.users == 0 && state.threads_before != 1) openblas().set_threads(state.threads_before);
}

}  // namespace lockstep
