#include "lockstep/parallel/slices/one_thread.h"

#include <ATen/Parallel.h>

#include "lockstep/base/processor/compute_threads.h"

namespace lockstep {

OneThread::OneThread() : before_(at::get_num_threads()) {
  set_blas_threads(1);
  if (before_ != 1) at::set_num_threads(1);
}

OneThread::~OneThread() {
  if (before_ != 1) at::set_num_threads(before_);
}

}  // namespace lockstep
