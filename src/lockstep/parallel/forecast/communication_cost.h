#pragma once

#include <cstdint>

#include "lockstep/parallel/forecast/step_forecast.h"

namespace lockstep {

/// Hosts with equal numbers of ranks.
struct ClusterShape {
  int hosts = 2;
  int ranks_per_host = 1;

  int ranks() const { return hosts * ranks_per_host; }
};

/// Each host's link, in each direction. All links may be full at a time.
struct LinkSpeed {
  double bytes_per_s = 125e6;
  double latency_s = 0;  ///< one way
};

/// What the engines cost a host's processors, as measured on one host.
struct EngineCosts {
  double operation_s = 0;    ///< an all-reduce of two ranks, beyond its bytes and the link: waking, waiting
  double message_cpu_s = 0;  ///< for each message that is sent, and its like that comes
  double byte_cpu_s = 0;     ///< for each byte that is sent, and its like that comes and is added
  double local_byte_s = 0;   ///< reduce-scatter and all-gather in a host's shared memory, for each byte of a tensor
};

/// How a bucket of fp32 gradients travels: as it is, or by fp16_compress_hook (bf16 is the same) or int8_compress_hook.
enum class Compression { None, Half, Int8 };

/// What a hook costs the computing thread, as measured on one rank, for each byte of fp32.
struct CompressionCosts {
  double start_byte_s = 0;
  double finish_byte_s = 0;
};

/// An all-reduce of `bytes` as the engines carry it out: gloo where each host has one rank, else hierarchical.
///
/// Gloo sends small tensors to everybody at once. Of large ones each rank adds up one part, which all others send it,
/// and sends the sum to all: 2 (n - 1) messages of each rank, each byte in pieces, so that the link and the processor
/// work at the same time. hierarchical does that between hosts, a lane for each local rank, after a reduce-scatter and
/// before an all-gather in shared memory, which run beside the network from 4 MiB on.
OperationCost all_reduce_cost(std::int64_t bytes, const ClusterShape& shape, const LinkSpeed& link,
                              const EngineCosts& costs);

/// A bucket of `bytes` of fp32 gradients.
BucketCost bucket_cost(std::int64_t bytes, Compression compression, const CompressionCosts& hook,
                       const ClusterShape& shape, const LinkSpeed& link, const EngineCosts& costs);

}  // namespace lockstep
