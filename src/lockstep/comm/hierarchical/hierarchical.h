#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Collectives between hosts with several ranks each: through shared memory inside a host, over another engine between
/// hosts, one lane for each local rank. An all-reduce is a reduce-scatter inside each host, an all-reduce of each slice
/// between the hosts, and an all-gather inside each host: so every byte crosses a host's link once in each direction,
/// not once for each of its ranks, and all ranks send at the same time. Small operations, where latency is all there
/// is, go straight from rank to rank.
///
/// LOCKSTEP_INTER_HOST_ENGINE, gloo or mpi, names the engine between hosts; default: gloo where this build has it.
///
/// Sums of fp16 and bf16 are taken in fp32 and rounded once inside each host and once between hosts, where other
/// engines round once: a partial sum in fp32 would be twice as long on the wire. Averages are averages of averages
/// where all hosts have as many ranks; else the sum is divided at the end.
std::unique_ptr<Communicator> make_hierarchical_communicator(Membership membership);

}  // namespace lockstep
