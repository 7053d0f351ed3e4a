#include "lockstep/parallel/fused/recovery/sum_exchange.h"

#include <utility>

namespace lockstep {
namespace {

// Apart from messages of the program, if it sends any over this group.
constexpr int kTag = 0x53554d;

// The rank of a host that receives what the rank at this place of another one has added up.
int receiver_of(int place, const std::vector<int>& host) { return host[static_cast<std::size_t>(place) % host.size()]; }

}  // namespace

SumExchange::SumExchange(const MemoryHosts& hosts, const UpdatePlan& plan, const std::vector<FusedBucket>& buckets,
                         Communicator& communicator)
    : plan_(plan), buckets_(buckets), communicator_(communicator) {
  for (int host = 0; host < hosts.count(); ++host) {
    if (host == hosts.host()) continue;
    const std::vector<int>& there = hosts.ranks[static_cast<std::size_t>(host)];
    receivers_.push_back(receiver_of(hosts.place(), there));
    for (const int sender : there) {
      const int place = hosts.place_of[static_cast<std::size_t>(sender)];
      if (receiver_of(place, hosts.here()) == hosts.rank) senders_.push_back(sender);
    }
  }
}

void SumExchange::start(std::size_t bucket) {
  const auto part_of = [&](int rank) {
    const Region& region = plan_.region(bucket, rank);
    return buckets_[bucket].sums.narrow(0, region.begin, region.end - region.begin);
  };
  for (const int sender : senders_) pending_.push_back(communicator_.irecv(part_of(sender), sender, kTag));
  const at::Tensor own = part_of(communicator_.rank());
  for (const int receiver : receivers_) pending_.push_back(communicator_.isend(own, receiver, kTag));
}

void SumExchange::finish() {
  for (const std::shared_ptr<Work>& work : std::exchange(pending_, {})) work->wait();
}

}  // namespace lockstep
