#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Collectives between hosts with several ranks each: through shared memory inside a host, and through another engine
/// between hosts, with one lane for each local rank. An all-reduce is a reduce-scatter inside each host, an all-reduce
/// of each slice between the hosts, and an all-gather inside each host. So every byte crosses a host's link once in
/// each direction, not once for each of its ranks, and all ranks send at the same time. Small operations, for which
/// only latency counts, go directly from rank to rank.
///
/// LOCKSTEP_INTER_HOST_ENGINE, tcp, gloo or mpi, names the engine between hosts; default: tcp.
///
/// Reductions add up inside each host in rank order, then over hosts, for every size: an element's bits do not depend
/// on the tensor that it is in, nor on whether all_reduce, reduce or reduce_scatter is called. Sums of fp16 and bf16
/// are computed in fp32 and rounded once inside each host and once between hosts; other engines round once, but a
/// partial sum in fp32 would be twice as long on the wire. Averages are averages of averages if all hosts have equally
/// many ranks; otherwise the sum is divided at the end.
std::unique_ptr<Communicator> make_hierarchical_communicator(Membership membership);

}  // namespace lockstep
