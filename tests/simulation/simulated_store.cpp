#include "tests/simulation/simulated_store.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/net/store/wire.h"
#include "lockstep/net/store_errors.h"
#include "tests/simulation/simulation.h"

namespace lockstep::simulation {
namespace {

constexpr Time kSoonestEnd = microseconds(50);  // of a connection, as a client notices it
constexpr Time kLatestEnd = milliseconds(5);
constexpr milliseconds kSilent{5000};
constexpr milliseconds kBetweenPolls{1};

std::string frame_of(StoreOperation operation, std::uint64_t request, const std::string& fields) {
  WireWriter frame;
  frame.u8(static_cast<std::uint8_t>(operation));
  frame.u64(request);
  frame.raw(fields);
  return frame.bytes();
}

WireWriter text_fields(std::initializer_list<std::string> texts) {
  WireWriter fields;
  for (const std::string& text : texts) fields.text(text);
  return fields;
}

[[noreturn]] void throw_lost() {
  throw_caused(StoreLostError("the store is lost", "simulated store", "-"), {FailureCause::Kind::LostPeer, -1});
}

std::optional<std::string> optional_in(WireReader& reader) {
  if (reader.u8() == 0) return std::nullopt;
  return reader.text(KeyTable::kMaxValueBytes);
}

}  // namespace

SimulatedServer::SimulatedServer(Simulation& simulation, Network& network, int host, std::int64_t era)
    : simulation_(simulation),
      network_(network),
      host_(host),
      era_(era),
      service_("simulated store", [this](ConnectionId to, const auto& frame) { answer(to, frame); }) {}

ConnectionId SimulatedServer::connect(const Process& process, Ear ear) {
  const ConnectionId id = next_++;
  clients_[id] = {&process, std::move(ear), {}, false};
  if (is_dead_) notify_end(id);
  return id;
}

void SimulatedServer::die() {
  is_dead_ = true;
  for (const auto& each : clients_) notify_end(each.first);
}

void SimulatedServer::notify_end(ConnectionId connection) {
  const Time notice = simulation_.random().time(kSoonestEnd, kLatestEnd);
  simulation_.after(notice + network_.delay(host_, clients_.at(connection).process->host()), [this, connection] {
    const Client& client = clients_.at(connection);
    if (!client.has_ended) client.ear.on_end();
  });
}

void SimulatedServer::send(ConnectionId connection, const std::string& frame) {
  Client& client = clients_.at(connection);
  const Time delay = network_.delay(client.process->host(), host_);
  simulation_.after(client.to_server.arrival(simulation_.now(), delay), [this, connection, frame] {
    if (!is_dead_) service_.handle(connection, frame, Deadline::Clock::now());
  });
}

void SimulatedServer::end(ConnectionId connection) {
  Client& client = clients_.at(connection);
  client.has_ended = true;
  const Time delay = network_.delay(client.process->host(), host_);
  simulation_.after(client.to_server.arrival(simulation_.now(), delay),
                    [this, connection] { service_.disconnected(connection, "connection closed"); });
}

void SimulatedServer::answer(ConnectionId connection, const std::string& frame) {
  const auto client = clients_.find(connection);
  if (is_dead_ || client == clients_.end() || client->second.has_ended) return;
  simulation_.after(network_.delay(host_, client->second.process->host()), [this, connection, frame] {
    const Client& to = clients_.at(connection);
    if (!to.has_ended && !is_dead_) to.ear.on_answer(frame);
  });
}

void SimulatedServer::mark_lost(const Peer& peer, const std::string& cause) {
  service_.mark_lost(0, LostRank{peer.global_rank, peer.host, cause});
}

void SimulatedServer::note_world(const std::string& key, const std::string& list) {
  if (worlds_.emplace(key, list).first->second != list)
    simulation_.fail("two processes read different lists of " + key);
}

void SimulatedServer::look_for_silence() {
  for (const auto& [connection, client] : clients_) {
    if (client.has_ended || client.process->stands_still()) continue;
    send(connection, frame_of(StoreOperation::Heartbeat, 0, ""));
  }
  service_.check_heartbeats(Deadline::Clock::now(), kSilent);
}

void SimulatedServer::join(const std::vector<std::pair<ConnectionId, Peer>>& ranks) {
  for (const auto& [connection, peer] : ranks) {
    WireWriter fields;
    fields.i64(0);
    fields.u32(static_cast<std::uint32_t>(ranks.size()));
    write_peer(fields, peer);
    service_.handle(connection, frame_of(StoreOperation::Join, 0, fields.bytes()), Deadline::Clock::now());
  }
}

SimulatedStore::SimulatedStore(Process& process, SimulatedServer& server, Points& points)
    : process_(process), server_(&server), points_(points), connection_(server.connect(process, ear())) {}

SimulatedServer::Ear SimulatedStore::ear() {
  return {[this](const std::string& frame) { take_answer(frame); }, [this, from = server_] { lose(*from); }};
}

void SimulatedStore::lose(const SimulatedServer& server) {
  if (&server != server_) return;
  is_lost_ = true;
  process_.wake(park_);
}

void SimulatedStore::tell(SimulatedServer& server, const std::set<int>& roll) {
  if (server.era() <= server_->era() || (told_ != nullptr && server.era() <= told_->era())) return;
  told_ = &server;
  roll_ = roll;
  is_lost_ = true;
  process_.wake(park_);
}

StoreMove SimulatedStore::follow(const Peer& self) {
  while (told_ == nullptr) {
    park_ = process_.next_park();
    process_.park();
  }
  server_->end(connection_);
  server_ = std::exchange(told_, nullptr);
  is_lost_ = false;
  connection_ = server_->connect(process_, ear());
  const StoreMove move{server_->era(), roll_, ""};
  enter(self);
  return move;
}

void SimulatedStore::take_answer(const std::string& frame) {
  WireReader reader(frame);
  if (reader.u64() != request_ || request_ == 0) return;
  answer_ = frame;
  process_.wake(park_);
}

std::string SimulatedStore::call(StoreOperation operation, const WireWriter& fields) {
  points_.pass(process_);
  if (is_lost_) throw_lost();
  ++request_;
  answer_.reset();
  server_->send(connection_, frame_of(operation, request_, fields.bytes()));
  points_.pass(process_);
  while (!answer_ && !is_lost_) {
    park_ = process_.next_park();
    process_.park();
  }
  points_.pass(process_);
  if (!answer_) throw_lost();
  const std::string frame = *answer_;
  WireReader reader(frame);
  reader.u64();
  if (static_cast<StoreStatus>(reader.u8()) == StoreStatus::Ok) return frame.substr(9);
  const std::string what = reader.text(kMaxMessageBytes);
  throw Error(what, "simulated store", reader.text(kMaxMessageBytes));
}

void SimulatedStore::enter(const Peer& self) {
  WireWriter fields;
  fields.i64(0);
  write_peer(fields, self);
  call(StoreOperation::Enter, fields);
}

void SimulatedStore::finish(Deadline /*deadline*/) {
  try {
    call(StoreOperation::Leave, {});
  } catch (const StoreLostError&) {  // it ended before this process did
  }
}

void SimulatedStore::set(const std::string& key, const std::string& value) {
  call(StoreOperation::Set, text_fields({key, value}));
  if (on_request_ && key.find("ask/") != std::string::npos) on_request_();
}

std::string SimulatedStore::get(const std::string& key, Deadline deadline) {
  wait({key}, deadline);
  return try_get(key).value();
}

std::optional<std::string> SimulatedStore::try_get(const std::string& key) {
  const std::string answer = call(StoreOperation::TryGet, text_fields({key}));
  WireReader reader(answer);
  std::optional<std::string> value = optional_in(reader);
  if (value && key.find("world/") != std::string::npos) server_->note_world(key, *value);
  return value;
}

std::vector<std::optional<std::string>> SimulatedStore::try_get_all(const std::vector<std::string>& keys) {
  WireWriter fields;
  fields.u32(static_cast<std::uint32_t>(keys.size()));
  for (const std::string& key : keys) fields.text(key);
  const std::string answer = call(StoreOperation::TryGetAll, fields);
  WireReader reader(answer);
  std::vector<std::optional<std::string>> values(reader.u32());
  for (auto& value : values) value = optional_in(reader);
  return values;
}

std::int64_t SimulatedStore::add(const std::string& key, std::int64_t delta) {
  WireWriter fields = text_fields({key});
  fields.i64(delta);
  return WireReader(call(StoreOperation::Add, fields)).i64();
}

std::string SimulatedStore::compare_set(const std::string& key, const std::string& expected,
                                        const std::string& desired) {
  const std::string answer = call(StoreOperation::CompareSet, text_fields({key, expected, desired}));
  return WireReader(answer).text(KeyTable::kMaxValueBytes);
}

bool SimulatedStore::delete_key(const std::string& key) {
  return WireReader(call(StoreOperation::Delete, text_fields({key}))).u8() != 0;
}

void SimulatedStore::wait(const std::vector<std::string>& keys, Deadline deadline) {
  for (;;) {
    const auto values = try_get_all(keys);
    if (std::all_of(values.begin(), values.end(), [](const auto& value) { return value.has_value(); })) return;
    if (deadline.passed()) throw TimeoutError("a key is missing: " + keys.front(), "simulated store", "");
    std::this_thread::sleep_for(kBetweenPolls);
  }
}

std::int64_t SimulatedStore::num_keys() { return WireReader(call(StoreOperation::NumKeys, {})).i64(); }

std::vector<LostRank> SimulatedStore::lost_ranks() {
  const std::string answer = call(StoreOperation::LostRanks, {});
  WireReader reader(answer);
  std::vector<LostRank> lost(reader.u32());
  for (LostRank& rank : lost) {
    rank.rank = static_cast<int>(reader.u32());
    rank.host = reader.text(kMaxHostBytes);
    rank.cause = reader.text(kMaxMessageBytes);
    rank.silent = reader.u8() != 0;
  }
  return lost;
}

}  // namespace lockstep::simulation
