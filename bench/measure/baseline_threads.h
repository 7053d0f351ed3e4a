// Sets the threads for measuring a single replica, and restores them at the end.
#pragma once

#include <optional>

#include "lockstep/base/processor/compute_threads.h"

namespace lockstep {

/// One thread for everything; or, with 0, the process's own number.
class BaselineThreads {
 public:
  explicit BaselineThreads(int threads) : before_(openmp_threads()) {
    if (threads != 1) return;
    set_openmp_threads(1);
    products_.emplace();  // one thread for OpenBLAS too
  }
  ~BaselineThreads() {
    if (before_ > 0) set_openmp_threads(before_);
  }
  BaselineThreads(const BaselineThreads&) = delete;
  BaselineThreads& operator=(const BaselineThreads&) = delete;

 private:
  int before_;
  std::optional<SideBySideProducts> products_;
};

}  // namespace lockstep
