#pragma once

namespace lockstep {

/// While it lives, the calling thread computes with one thread, because LibTorch cuts sums over elements by threads.
///
/// OpenBLAS counts threads for the whole process, in which other ranks may compute at the same time, so that its number
/// stays 1 afterwards.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace lockstep
