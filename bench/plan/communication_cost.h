#pragma once

#include <cstdint>

#include "bench/plan/step_forecast.h"

namespace lockstep {

/// Hosts with equal numbers of ranks.
struct ClusterShape {
  int hosts = 2;
  int ranks_per_host = 1;

  int ranks() const { return hosts * ranks_per_host; }
};

/// The speed of each host's link, in each direction. All links can be saturated at the same time.
struct LinkSpeed {
  double bytes_per_s = 125e6;
  double latency_s = 0;  ///< one way
};

/// The processor time of the engines, as measured on one host.
struct EngineCosts {
  double operation_s = 0;    ///< an all-reduce of two ranks, without its bytes and the link: waking, waiting
  double message_cpu_s = 0;  ///< for each message sent, and one like it received
  double byte_cpu_s = 0;     ///< for each byte sent, and one received and added
  double local_byte_s = 0;   ///< reduce-scatter and all-gather in a host's shared memory, for each byte of a tensor
};

/// How a bucket of fp32 gradients is sent: uncompressed, by fp16_compress_hook (bf16 costs the same) or by
/// int8_compress_hook.
enum class Compression { None, Half, Int8 };

/// Seconds that a hook costs the computing thread, as measured on one rank, for each byte of fp32.
struct CompressionCosts {
  double start_byte_s = 0;
  double finish_byte_s = 0;
};

/// The cost of an all-reduce of `bytes` as the engines do it: gloo if each host has one rank, else hierarchical.
///
/// Gloo sends a small tensor to all ranks at once. For a large tensor, each rank receives one part from all others,
/// adds it up and sends the sum to all: 2 (n - 1) messages per rank, cut into pieces so that link and processor work at
/// the same time. hierarchical does this between hosts, in one lane for each local rank, after a reduce-scatter and
/// before an all-gather in shared memory. From 4 MiB on these overlap with the network.
OperationCost all_reduce_cost(std::int64_t bytes, const ClusterShape& shape, const LinkSpeed& link,
                              const EngineCosts& costs);

/// The cost of a bucket of `bytes` of fp32 gradients.
BucketCost bucket_cost(std::int64_t bytes, Compression compression, const CompressionCosts& hook,
                       const ClusterShape& shape, const LinkSpeed& link, const EngineCosts& costs);

}  // namespace lockstep
