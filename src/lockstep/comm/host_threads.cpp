#include "lockstep/comm/host_threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/compute_threads.h"
#include "lockstep/base/processor/cpu_mask.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/start/process_threads.h"
#include "lockstep/start/start_variables.h"

namespace lockstep {
namespace {

// The cores that each other rank of this host may run on. A rank that has already ended may run on all of this one's.
std::vector<std::vector<int>> cores_of_others(const Membership& membership) {
  std::vector<std::vector<int>> cores;
  for (const Peer& peer : membership.peers) {
    if (peer.host_id != membership.self().host_id || peer.pid == membership.self().pid) continue;
    const auto mask = CpuMask::of(peer.pid);
    cores.push_back(mask ? mask->cores() : affinity_cores());
  }
  return cores;
}

}  // namespace

void compute_with_threads(int threads) {
  at::set_num_threads(threads);
  set_blas_threads(threads);
}

void share_host_threads(const Membership& membership) {
  if (ranks_by_launcher() != 0 || chosen_by("OMP_NUM_THREADS") != "lockstep") return;
  // What an earlier group of this process, with other ranks, had as its share.
  static std::atomic<int> earlier_share{0};
  const int before = at::get_num_threads();
  const int all = static_cast<int>(env_int("OMP_NUM_THREADS").value_or(before));
  const bool is_programs_choice = before != all && before != earlier_share;
  const std::vector<std::vector<int>> others = cores_of_others(membership);
  const int share = std::min(threads_beside(affinity_cores(), others), all);
  if (is_programs_choice || share == before) return;
  earlier_share = share;
  at::set_num_threads(share);
  if (chosen_by("OPENBLAS_NUM_THREADS") != "user") set_blas_threads(share);
  if (membership.self().local_rank != 0) return;
  log_info("LOCAL_WORLD_SIZE is not set, but {} ranks run on {}: rank {} uses {} of {} threads", others.size() + 1,
           membership.self().host, membership.rank, share, all);
}

}  // namespace lockstep
