#include "lockstep/comm/host_threads.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/compute_threads.h"
#include "lockstep/start/process_threads.h"
#include "lockstep/start/start_variables.h"

namespace lockstep {

void compute_with_threads(int threads) {
  at::set_num_threads(threads);
  set_blas_threads(threads);
}

void share_host_threads(const Membership& membership) {
  if (ranks_by_launcher() != 0 || chosen_by("OMP_NUM_THREADS") != "lockstep") return;
  const auto ranks =
      static_cast<int>(std::count_if(membership.peers.begin(), membership.peers.end(),
                                     [&](const Peer& peer) { return peer.host_id == membership.self().host_id; }));
  const int before = at::get_num_threads();
  const bool is_programs_choice = env_int("OMP_NUM_THREADS") != before;
  const int share = threads_of_process(ranks);
  if (is_programs_choice || share >= before) return;
  at::set_num_threads(share);
  if (chosen_by("OPENBLAS_NUM_THREADS") != "user") set_blas_threads(share);
  if (membership.self().local_rank != 0) return;
  log_info(
      "{} ranks share {}, which their launcher did not say (LOCAL_WORLD_SIZE): each computes with {} of {} threads",
      ranks, membership.self().host, share, before);
}

}  // namespace lockstep
