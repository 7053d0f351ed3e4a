#include "bench/plan/communication_cost.h"

#include <algorithm>
#include <cmath>

#include "lockstep/comm/hierarchical/stage_sizes.h"
#include "lockstep/comm/mesh/message_sizes.h"
#include "lockstep/parallel/hooks/int8_blocks.h"

namespace lockstep {
namespace {

// Headers of Ethernet, IP and TCP on frames of 1500 bytes.
constexpr double kFramesPerPayload = 1514.0 / 1448.0;

// One of `lanes` groups that share the hosts' links. Each group has one rank of each host.
struct Lanes {
  int hosts;
  int lanes;
  const LinkSpeed& link;
  const EngineCosts& costs;

  double peers() const { return hosts - 1; }

  // Each rank sends this many bytes in this many messages, in `rounds` that follow each other.
  OperationCost exchange(double sent_bytes, double messages, int rounds) const {
    OperationCost cost;
    cost.cpu_s = sent_bytes * costs.byte_cpu_s + messages * costs.message_cpu_s;
    const double link_s = sent_bytes * lanes * kFramesPerPayload / link.bytes_per_s;
    cost.seconds = costs.operation_s + rounds * link.latency_s + std::max(link_s, cost.cpu_s);
    return cost;
  }

  OperationCost all_reduce(double bytes) const {
    if (bytes * peers() <= kMostPacketBytes) return exchange(bytes * peers(), peers(), 1);
    const double part = bytes / hosts;
    const auto segment = static_cast<double>(segment_bytes(hosts));
    return exchange(2 * part * peers(), 2 * peers() * std::ceil(part / segment), 2);
  }
};

Lanes one_lane_of_all(const ClusterShape& shape, const LinkSpeed& link, const EngineCosts& costs) {
  return {shape.hosts, 1, link, costs};
}

// All ranks send to all others, without shared memory. Messages within a host do not use its link.
OperationCost flat_exchange(double bytes_to_each, const ClusterShape& shape, const LinkSpeed& link,
                            const EngineCosts& costs) {
  const double peers = shape.ranks() - 1;
  const double elsewhere = shape.ranks() - shape.ranks_per_host;
  OperationCost cost;
  cost.cpu_s = bytes_to_each * peers * costs.byte_cpu_s + peers * costs.message_cpu_s;
  const double link_s = bytes_to_each * elsewhere * shape.ranks_per_host * kFramesPerPayload / link.bytes_per_s;
  cost.seconds = costs.operation_s + link.latency_s + std::max(link_s, cost.cpu_s);
  return cost;
}

OperationCost hierarchical_all_reduce(double bytes, const ClusterShape& shape, const LinkSpeed& link,
                                      const EngineCosts& costs) {
  if (bytes * shape.ranks() <= kMostDirectBytes) return flat_exchange(bytes, shape, link, costs);
  const Lanes lanes{shape.hosts, shape.ranks_per_host, link, costs};
  const double pieces = std::max(1.0, std::ceil(bytes / kStagePieceBytes));
  const double local_s = bytes * costs.local_byte_s;
  OperationCost between = lanes.all_reduce(bytes / pieces / shape.ranks_per_host);
  between.seconds *= pieces;
  between.cpu_s *= pieces;
  OperationCost cost;
  cost.cpu_s = between.cpu_s + local_s;
  // The way of the first piece into the network, and of the last piece out of it, overlap with nothing.
  cost.seconds = std::max(between.seconds + local_s / pieces, cost.cpu_s);
  return cost;
}

// Each rank sends a message of one length to each other rank: all-gather, or all-to-all with as many parts.
OperationCost all_gather_cost(double bytes, const ClusterShape& shape, const LinkSpeed& link,
                              const EngineCosts& costs) {
  if (shape.ranks_per_host == 1) {
    const Lanes lane = one_lane_of_all(shape, link, costs);
    return lane.exchange(bytes * lane.peers(), lane.peers(), 1);
  }
  if (bytes * shape.ranks() <= kMostDirectBytes) return flat_exchange(bytes, shape, link, costs);
  const Lanes lanes{shape.hosts, shape.ranks_per_host, link, costs};
  OperationCost cost = lanes.exchange(bytes * lanes.peers(), lanes.peers(), 1);
  const double local_s = bytes * shape.ranks() * costs.local_byte_s;
  cost.seconds += local_s;
  cost.cpu_s += local_s;
  return cost;
}

}  // namespace

OperationCost all_reduce_cost(std::int64_t bytes, const ClusterShape& shape, const LinkSpeed& link,
                              const EngineCosts& costs) {
  if (shape.ranks() == 1) return {};
  const auto size = static_cast<double>(bytes);
  if (shape.hosts == 1) return {size * costs.local_byte_s, size * costs.local_byte_s};
  if (shape.ranks_per_host > 1) return hierarchical_all_reduce(size, shape, link, costs);
  return one_lane_of_all(shape, link, costs).all_reduce(size);
}

BucketCost bucket_cost(std::int64_t bytes, Compression compression, const CompressionCosts& hook,
                       const ClusterShape& shape, const LinkSpeed& link, const EngineCosts& costs) {
  BucketCost cost;
  if (compression == Compression::None) {
    cost.leaving = all_reduce_cost(bytes, shape, link, costs);
    return cost;
  }
  const auto size = static_cast<double>(bytes);
  cost.start_s = size * hook.start_byte_s;
  cost.finish_s = size * hook.finish_byte_s;
  if (compression == Compression::Half) {
    cost.leaving = all_reduce_cost(bytes / 2, shape, link, costs);
    return cost;
  }
  const auto codes = static_cast<double>(int8_bytes(static_cast<std::size_t>(bytes) / sizeof(float)));
  if (shape.ranks() <= 2) {
    cost.leaving = all_gather_cost(codes, shape, link, costs);
    return cost;
  }
  // All ranks send their codes of each part to its owner. The owner adds them up and sends its codes of the sum to all.
  const double part = codes / shape.ranks();
  cost.leaving = flat_exchange(part, shape, link, costs);
  cost.middle_s = size * hook.finish_byte_s + cost.start_s / shape.ranks();
  cost.coming = all_gather_cost(part, shape, link, costs);
  return cost;
}

}  // namespace lockstep
