#include "lockstep/net/store/store_client.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/net/server/key_table.h"
#include "lockstep/net/store/request_channel.h"
#include "lockstep/net/store/store_protocol.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostAskedAtOnceBytes = std::size_t{1} << 20;  // of keys: below the limits of a frame and a wait

JoinResult join_result(const std::string& answer) {
  WireReader reader(answer);
  JoinResult result;
  result.round = static_cast<int>(reader.u32());
  const std::uint32_t count = reader.u32();
  for (std::uint32_t i = 0; i < count; ++i) result.peers.push_back(read_peer(reader));
  return result;
}

}  // namespace

using AtDeadline = RequestChannel::AtDeadline;

class StoreClient::Implementation {
 public:
  Implementation(const SocketAddress& address, const std::string& secret, Deadline deadline,
                 const StoreClientOptions& options)
      : channel_(address, secret, deadline, options),
        call_timeout_(options.call_timeout),
        job_key_(job_key_of(secret)) {}

  RequestChannel& channel() { return channel_; }
  const std::string& job_key() const { return job_key_; }

  /// A request that is answered at once. `operation_name` and `key` are for errors.
  std::string ask(StoreOperation operation, const WireWriter& fields, const char* operation_name,
                  const std::string& key = {}) {
    return channel_.call(operation, fields.bytes(), Deadline::after(call_timeout_), AtDeadline::Fail,
                         named(operation_name, key));
  }
  /// A request that waits.
  std::string await(StoreOperation operation, const WireWriter& fields, Deadline deadline, const char* operation_name,
                    const std::string& key = {}) {
    return channel_.call(operation, fields.bytes(), deadline, AtDeadline::Cancel, named(operation_name, key));
  }
  /// The first field of most requests.
  WireWriter key_field(const std::string& key, const std::string& value = {}) const {
    check_limits(key, value, channel_.where() + ", store at " + channel_.address().text());
    WireWriter fields;
    fields.text(key);
    return fields;
  }

 private:
  static std::string named(const char* operation_name, const std::string& key) {
    return key.empty() ? operation_name : fmt::format("{}(\"{}\")", operation_name, printable_key(key));
  }

  RequestChannel channel_;
  std::chrono::milliseconds call_timeout_;
  const std::string job_key_;
};

StoreClient::StoreClient(const SocketAddress& address, const std::string& secret, Deadline deadline,
                         const StoreClientOptions& options)
    : implementation_(std::make_unique<Implementation>(address, secret, deadline, options)) {}
StoreClient::~StoreClient() = default;

const SocketAddress& StoreClient::address() const { return implementation_->channel().address(); }
std::string StoreClient::own_end() const { return implementation_->channel().own_end(); }
std::string StoreClient::job_key() const { return implementation_->job_key(); }

JoinResult StoreClient::join(const JoinRequest& request, Deadline deadline) {
  WireWriter fields;
  fields.i64(request.generation);
  fields.u32(static_cast<std::uint32_t>(request.world_size));
  write_peer(fields, request.self);
  return join_result(implementation_->await(StoreOperation::Join, fields, deadline, "joining"));
}

JoinResult StoreClient::enter(const JoinRequest& request, Deadline deadline) {
  WireWriter fields;
  fields.i64(request.generation);
  write_peer(fields, request.self);
  return join_result(implementation_->await(StoreOperation::Enter, fields, deadline, "entering"));
}

std::int64_t StoreClient::push(const std::string& queue, const std::string& value) {
  WireWriter fields = implementation_->key_field(queue, value);
  fields.text(value);
  return WireReader(implementation_->ask(StoreOperation::Push, fields, "push", queue)).i64();
}

void StoreClient::set_will(const std::string& queue, const std::string& value, std::chrono::milliseconds limit) {
  WireWriter fields = implementation_->key_field(queue, value);
  fields.text(value);
  fields.u32(static_cast<std::uint32_t>(limit.count()));
  implementation_->ask(StoreOperation::Will, fields, "set_will", queue);
}

void StoreClient::set(const std::string& key, const std::string& value) {
  WireWriter fields = implementation_->key_field(key, value);
  fields.text(value);
  implementation_->ask(StoreOperation::Set, fields, "set", key);
}

std::string StoreClient::get(const std::string& key, Deadline deadline) {
  const std::string answer =
      implementation_->await(StoreOperation::Get, implementation_->key_field(key), deadline, "get", key);
  return WireReader(answer).text(KeyTable::kMaxValueBytes);
}

std::optional<std::string> StoreClient::try_get(const std::string& key) {
  const std::string answer =
      implementation_->ask(StoreOperation::TryGet, implementation_->key_field(key), "try_get", key);
  WireReader reader(answer);
  if (reader.u8() == 0) return std::nullopt;
  return reader.text(KeyTable::kMaxValueBytes);
}

std::vector<std::optional<std::string>> StoreClient::try_get_all(const std::vector<std::string>& keys) {
  std::vector<std::optional<std::string>> values;
  while (values.size() < keys.size()) {
    WireWriter names;
    std::uint32_t asked = 0;
    for (std::size_t i = values.size(); i < keys.size() && names.bytes().size() < kMostAskedAtOnceBytes; ++i, ++asked) {
      names.raw(implementation_->key_field(keys[i]).bytes());
    }
    WireWriter fields;
    fields.u32(asked);
    fields.raw(names.bytes());
    const std::string answer =
        implementation_->ask(StoreOperation::TryGetAll, fields, "try_get_all", keys[values.size()]);
    WireReader reader(answer);
    const std::uint32_t answered = reader.u32();
    if (answered == 0 || answered > asked) throw WireError("try_get_all was answered with another number of values");
    for (std::uint32_t i = 0; i < answered; ++i) {
      values.emplace_back();
      if (reader.u8() != 0) values.back() = reader.text(KeyTable::kMaxValueBytes);
    }
  }
  return values;
}

std::int64_t StoreClient::add(const std::string& key, std::int64_t delta) {
  WireWriter fields = implementation_->key_field(key);
  fields.i64(delta);
  return WireReader(implementation_->ask(StoreOperation::Add, fields, "add", key)).i64();
}

std::string StoreClient::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  implementation_->key_field(key, expected);  // checks its size
  WireWriter fields = implementation_->key_field(key, desired);
  fields.text(expected);
  fields.text(desired);
  const std::string answer = implementation_->ask(StoreOperation::CompareSet, fields, "compare_set", key);
  return WireReader(answer).text(KeyTable::kMaxValueBytes);
}

bool StoreClient::delete_key(const std::string& key) {
  const std::string answer =
      implementation_->ask(StoreOperation::Delete, implementation_->key_field(key), "delete_key", key);
  return WireReader(answer).u8() != 0;
}

void StoreClient::wait(const std::vector<std::string>& keys, Deadline deadline) {
  if (keys.empty()) return;
  if (keys.size() > kMaxKeysPerWait) {
    throw Error(fmt::format("wait for {} keys, more than {}", keys.size(), kMaxKeysPerWait),
                implementation_->channel().where(), "wait for them in parts");
  }
  WireWriter fields;
  fields.u32(static_cast<std::uint32_t>(keys.size()));
  for (const std::string& key : keys) fields.raw(implementation_->key_field(key).bytes());
  implementation_->await(StoreOperation::Wait, fields, deadline, "wait", keys.front());
}

std::int64_t StoreClient::num_keys() {
  return WireReader(implementation_->ask(StoreOperation::NumKeys, {}, "num_keys")).i64();
}

std::vector<LostRank> StoreClient::lost_ranks() {
  const std::string answer = implementation_->ask(StoreOperation::LostRanks, {}, "lost_ranks");
  WireReader reader(answer);
  const std::uint32_t count = reader.u32();
  std::vector<LostRank> lost;
  for (std::uint32_t i = 0; i < count; ++i) {
    LostRank rank;
    rank.rank = static_cast<int>(reader.u32());
    rank.host = reader.text(kMaxHostBytes);
    rank.cause = reader.text(kMaxMessageBytes);
    rank.silent = reader.u8() != 0;
    lost.push_back(rank);
  }
  return lost;
}

void StoreClient::abandon(const std::string& reason) { implementation_->channel().abandon(reason); }

void StoreClient::finish(Deadline deadline) {
  RequestChannel& channel = implementation_->channel();
  if (!channel.usable()) return;
  try {
    channel.call(StoreOperation::Leave, {}, deadline, AtDeadline::Fail, "finish");
  } catch (const Error& error) {
    // The server ended before this client: nobody is left to be told, and the work is done.
    log_info("the store could not be told that this client leaves: {}", error.happened());
  }
  channel.close("this rank has left the store");
}

}  // namespace lockstep
