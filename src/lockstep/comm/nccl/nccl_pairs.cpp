#include "lockstep/comm/nccl/nccl_pairs.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// Time between two checks whether the group has ended meanwhile.
constexpr std::chrono::milliseconds kPairLook{250};

}  // namespace

ncclUniqueId share_nccl_id(Store& store, const std::string& key, bool makes_it, const NcclConnections& connections) {
  if (makes_it) {
    const ncclUniqueId id = new_nccl_id();
    store.set(key, std::string(id.internal, sizeof(id.internal)));
    return id;
  }
  for (;;) {
    if (connections.broken()) throw NcclAborted();
    try {
      const std::string text = store.get(key, Deadline::after(kPairLook));
      ncclUniqueId id;
      if (text.size() != sizeof(id.internal)) {
        throw Error("the value in the store is not an id of NCCL", "this group", "run the same build on every rank");
      }
      std::memcpy(id.internal, text.data(), sizeof(id.internal));
      return id;
    } catch (const TimeoutError&) {  // the supervisor enforces the deadline
    }
  }
}

NcclPairs::NcclPairs(const Membership& membership, std::shared_ptr<NcclConnections> connections)
    : membership_(membership), connections_(std::move(connections)) {}

void NcclPairs::require(int from, int to, int tag) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::set<int>& tags = tags_[{from, to}];
  if (tags.count(tag) != 0 || tags.size() < kMostTags) {
    tags.insert(tag);
    return;
  }
  throw Error(fmt::format("messages from rank {} to rank {} have tag {} and {} other tags; over nccl each tag of a "
                          "direction has a communicator, which takes tens of MB of device memory",
                          from, to, tag, tags.size()),
              "this group",
              "use fewer tags: messages of one tag arrive in the order in which they were sent, so a step or a layer "
              "needs none of its own");
}

NcclPairs::Pair NcclPairs::get(int from, int to, int tag) {
  const std::tuple<int, int, int> key{from, to, tag};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = pairs_.find(key);
    if (found != pairs_.end()) return found->second;
  }
  // Messages of one direction and tag arrive one at a time, so no other thread makes this pair meanwhile.
  Pair pair = connect(from, to, tag);
  const std::lock_guard<std::mutex> lock(mutex_);
  return pairs_.emplace(key, std::move(pair)).first->second;
}

NcclPairs::Pair NcclPairs::connect(int from, int to, int tag) {
  const bool sends = from == membership_.rank;
  const std::string key = fmt::format("nccl/pair/{}-{}-{}", from, to, tag);
  const ncclUniqueId id = share_nccl_id(*membership_.store, key, sends, *connections_);
  Pair pair{std::make_shared<NcclHandle>(sends ? kSender : kReceiver, 2, id), std::make_shared<NcclStream>()};
  connections_->add(pair.handle, pair.stream);
  pair.handle->wait_until_up();
  return pair;
}

}  // namespace lockstep
