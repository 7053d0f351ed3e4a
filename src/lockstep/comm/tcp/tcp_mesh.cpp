// Connections between ranks that are authenticated by the job's secret before anything else is read from them.
#include "lockstep/comm/tcp/tcp_mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/mesh/guarded_mesh.h"
#include "lockstep/comm/tcp/link_loop.h"
#include "lockstep/comm/tcp/message_link.h"
#include "lockstep/comm/tcp/packet_lane.h"
#include "lockstep/comm/tcp/tcp_buffer.h"
#include "lockstep/comm/tcp/tcp_dial.h"
#include "lockstep/net/hmac.h"

namespace lockstep {
namespace {

// The packets of a whole mesh take this much memory, except with very many ranks.
constexpr std::size_t kTcpPacketMemory = 8 << 20;
constexpr std::size_t kSmallestTcpPacket = 1 << 10;
constexpr std::size_t kLargestTcpPacket = 64 << 10;

class TcpMesh : public GuardedMesh, public TcpTraffic, public LinkLoop::Events {
 public:
  explicit TcpMesh(const TcpMeshOptions& options)
      : rank_(options.rank),
        size_(options.size),
        job_key_(options.job_key),
        group_(options.group),
        on_failure_(options.on_failure),
        invitation_(to_hex(random_bytes(kDigestBytes))),
        guests_(static_cast<std::size_t>(size_)),
        links_(guests_.size()),
        packets_(guests_.size()) {
    auto door = std::make_unique<PeerDoor>(SocketAddress::tcp(options.address, 0),
                                           peer_key(job_key_, group_, invitation_), rank_, options.deadline);
    listens_at_ = door->address().text();
    loop_ = std::make_unique<LinkLoop>(std::move(door), size_, *this);
  }

  ~TcpMesh() override {
    break_connections();
    loop_.reset();
  }

  const std::string& listens_at() const { return listens_at_; }

  std::string address_for(int) override { return listens_at_ + ' ' + invitation_; }

  void connect(int peer, const std::string& address) override {
    LaneStreams streams = peer < rank_ ? dial(peer, address) : await(peer);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken()) throw why_broken();
    const auto place = static_cast<std::size_t>(peer);
    packets_[place] = std::make_unique<PacketLane>(std::move(streams[kPacketLane]), packet_bytes());
    links_[place] = std::make_unique<MessageLink>(std::move(streams[kMessageLane]), std::move(streams[kGrantLane]));
    loop_->add(peer, *links_[place]);
    if (++connected_ == size_ - 1) loop_->close_door();
  }

  std::unique_ptr<MeshBuffer> buffer(void* data, std::size_t bytes) override {
    return std::make_unique<TcpBuffer>(*this, data, bytes);
  }
  bool sends_unattended() const override { return true; }

  std::size_t packet_bytes() const override {
    const std::size_t fair = kTcpPacketMemory / (PacketLane::kRoom * static_cast<std::size_t>(size_ - 1));
    return std::clamp(fair / 64 * 64, kSmallestTcpPacket, kLargestTcpPacket);
  }
  std::size_t packets_at_once() const override { return PacketLane::kAtOnce; }

  void send_packet(int to, std::uint64_t mark, const void* data, std::size_t bytes) override {
    PacketLane& lane = *packets_[static_cast<std::size_t>(to)];
    const FrameHeader header{mark, bytes};
    const std::size_t all = FrameHeader::kBytes + bytes;
    for (std::size_t done = 0; done < all || lane.flush();) {
      if (broken()) throw why_broken();
      const auto sent = done < all ? lane.send(header, data, done) : std::optional<std::size_t>(0);
      if (!sent) fail(to, "the connection for packets broke");
      done += *sent;
      if (*sent == 0) await_room(lane);
    }
  }

  const void* wait_packet(int from, std::uint64_t mark, std::size_t bytes) override {
    PacketLane& lane = *packets_[static_cast<std::size_t>(from)];
    for (;;) {
      if (broken()) throw why_broken();
      const auto packet = next_packet(from, lane);
      if (packet && packet->header.mark == mark && packet->header.bytes == bytes) return packet->data;
      if (packet) throw_once_broken([] {});  // it belongs to another operation
      if (lane.ended()) fail(from, "the other side ended the connection");
      if (read_packets(from, lane) != PacketLane::Reading::Nothing) continue;
      pollfd waited{lane.fd(), POLLIN, 0};
      ::poll(&waited, 1, -1);  // break_connections ends it
    }
  }

  void release_packet(int from) override { packets_[static_cast<std::size_t>(from)]->release(); }

  bool sees_losses() const override { return true; }
  std::vector<int> lost_peers() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lost_;
  }

  void break_connections() noexcept override {
    mark_broken();
    loop_->stop();
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& link : links_) {
      if (link) link->stop();
    }
    for (const auto& lane : packets_) {
      if (lane) ::shutdown(lane->fd(), SHUT_RDWR);
    }
    if (dialing_ >= 0) ::shutdown(dialing_, SHUT_RDWR);
    arrived_.notify_all();
    for (TcpBuffer* const waiting : buffers_) waiting->wake();
  }

 private:
  LaneStreams dial(int peer, const std::string& address) {
    const PeerConnectionName name{static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(peer), 0};
    const auto watch = [this](int fd) {  // so that break_connections can end a handshake
      const std::lock_guard<std::mutex> lock(mutex_);
      dialing_ = fd;
      return !broken();
    };
    try {
      return dial_lanes(address, job_key_, group_, name, watch);
    } catch (const std::exception& error) {
      if (broken()) throw why_broken();
      throw MeshError(MeshError::Kind::Lost, error.what(), {peer});
    }
  }

  LaneStreams await(int peer) {
    std::unique_lock<std::mutex> lock(mutex_);
    LaneStreams& streams = guests_[static_cast<std::size_t>(peer)];
    const auto complete = [&] {
      return std::all_of(streams.begin(), streams.end(),
                         [](const PeerStream& stream) { return static_cast<bool>(stream); });
    };
    arrived_.wait(lock, [&] { return broken() || complete(); });
    if (!broken()) return std::move(streams);
    lock.unlock();
    throw why_broken();
  }

  // On the loop's thread, like the two below it. A rank of this group connects: anything else was refused.
  void arrived(PeerDoor::Guest guest) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [from, to, lane] = guest.name;
    if (from <= to || from >= static_cast<std::uint32_t>(size_) || lane >= kLanes || links_[from]) return;
    guests_[from][lane] = std::move(guest.stream);  // a second one replaces a first that its rank gave up
    arrived_.notify_all();
  }
  void ended(int peer) override { note_lost(peer); }
  void tick() override {
    bool late = false;
    look_at_guards([&] { late = true; });
    if (late) break_connections();
  }

  void note_lost(int peer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!broken() && std::find(lost_.begin(), lost_.end(), peer) == lost_.end()) lost_.push_back(peer);
  }

  std::optional<PacketLane::Packet> next_packet(int from, PacketLane& lane) {
    try {
      return lane.next();
    } catch (const MeshError& error) {
      fail(from, error.what());
    }
  }
  PacketLane::Reading read_packets(int from, PacketLane& lane) {
    try {
      return lane.read();
    } catch (const MeshError& error) {
      fail(from, error.what());
    }
  }

  // Packets of others are read meanwhile, so that two ranks that send to each other do not wait for each other.
  void await_room(const PacketLane& lane) {
    std::vector<pollfd> waited{{lane.fd(), POLLOUT, 0}};
    std::vector<std::size_t> readers;
    for (std::size_t peer = 0; peer < packets_.size(); ++peer) {
      if (!packets_[peer] || !packets_[peer]->reads()) continue;
      waited.push_back({packets_[peer]->fd(), POLLIN, 0});
      readers.push_back(peer);
    }
    ::poll(waited.data(), waited.size(), -1);  // break_connections ends it
    for (std::size_t i = 0; i < readers.size(); ++i) {
      if (waited[i + 1].revents != 0) read_packets(static_cast<int>(readers[i]), *packets_[readers[i]]);
    }
  }

  void enter(TcpBuffer& buffer) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    buffers_.insert(&buffer);
  }
  void leave(TcpBuffer& buffer, bool pending) override {
    if (pending) {
      break_connections();
      for (const auto& link : links_) {
        if (link) link->await_quiet();
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    buffers_.erase(&buffer);
  }
  void post_send(int to, std::uint64_t slot, TcpBuffer& owner, std::byte* data, std::size_t bytes) override {
    if (links_[static_cast<std::size_t>(to)]->post_send(slot, {&owner, data, bytes})) loop_->look_at(to);
  }
  void post_recv(int from, std::uint64_t slot, TcpBuffer& owner, std::byte* data, std::size_t bytes) override {
    if (links_[static_cast<std::size_t>(from)]->post_recv(slot, {&owner, data, bytes})) loop_->look_at(from);
  }
  bool is_broken() const override { return broken(); }

  [[noreturn]] void fail(const std::string& reason) override {
    for (int peer = 0; peer < size_; ++peer) {
      const auto& link = links_[static_cast<std::size_t>(peer)];
      if (link && !link->loss().empty()) note_lost(peer);
    }
    fail_with(reason);
  }
  [[noreturn]] void fail(int peer, const std::string& reason) {
    note_lost(peer);
    fail_with(reason);
  }
  [[noreturn]] void fail_with(const std::string& reason) {
    if (broken()) throw why_broken();
    const MeshError failure(MeshError::Kind::Lost, reason, lost_peers());
    if (on_failure_) on_failure_(failure);
    break_connections();
    throw failure;
  }

  const int rank_;
  const int size_;
  const std::string job_key_;
  const std::string group_;
  const std::function<void(const MeshError&)> on_failure_;
  const std::string invitation_;
  std::string listens_at_;

  std::mutex mutex_;  // guards the members below, of which links and packets stay as they are once connected
  std::condition_variable arrived_;
  std::vector<LaneStreams> guests_;  // by peer
  int connected_ = 0;
  int dialing_ = -1;
  std::vector<std::unique_ptr<MessageLink>> links_;   // by peer
  std::vector<std::unique_ptr<PacketLane>> packets_;  // by peer
  std::set<TcpBuffer*> buffers_;
  std::vector<int> lost_;

  std::unique_ptr<LinkLoop> loop_;
};

}  // namespace

TcpMeshPlace make_tcp_mesh(const TcpMeshOptions& options) {
  auto mesh = std::make_unique<TcpMesh>(options);
  std::string listens_at = mesh->listens_at();
  return {std::move(mesh), std::move(listens_at)};
}

}  // namespace lockstep
