// Only this file and mpi_runtime.cpp include MPI. They form a separate module, loaded when the engine is used, so that
// other programs do not depend on MPI. They include no LibTorch.
#include "lockstep/comm/mpi/mpi_mesh.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/mesh/deadline_guards.h"
#include "lockstep/comm/mpi/mpi_runtime.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

/// MPI's counts are ints.
constexpr std::size_t kLargestPiece = 1 << 30;
/// With its header a packet stays below the size up to which Open MPI's transports send without asking the receiver (4
/// KiB).
constexpr std::size_t kPacketPayload = 3968;
constexpr std::size_t kPacketsAtOnce = 16;
/// How long cancelled messages may take to end, before MPI as a whole is given up.
constexpr milliseconds kTakingBack{500};

/// Polls between two yields of the processor, and before the first sleep.
constexpr int kPollsPerYield = 32;
constexpr int kPollsBeforeSleep = 4096;
constexpr long kSleep_ns = 50'000;

struct PacketHeader {
  std::uint64_t mark;
  std::uint64_t bytes;
};

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

// One message: several requests if it is longer than MPI can count.
struct MpiMessage {
  int peer = 0;
  std::vector<MPI_Request> requests;
};

class MpiMesh : public Mesh {
 public:
  explicit MpiMesh(const MpiMeshOptions& options)
      : runtime_(MpiRuntime::get(options.deadline)),
        salt_(hash_of(options.group)),
        on_failure_(options.on_failure),
        places_(static_cast<std::size_t>(options.size), -1),
        packets_(places_.size()) {}

  ~MpiMesh() override {
    break_connections();
    take_back();
  }

  std::string address_for(int) override { return std::to_string(runtime_.rank()) + ' ' + runtime_.job(); }

  void connect(int peer, const std::string& address) override {
    const std::size_t space = address.find(' ');
    if (space == std::string::npos || address.substr(space + 1) != runtime_.job()) {
      throw MeshError(MeshError::Kind::Lost, "it was started by another mpirun", {peer});
    }
    places_[static_cast<std::size_t>(peer)] = std::atoi(address.c_str());
    post_packet(peer);
  }

  std::unique_ptr<MeshBuffer> buffer(void* data, std::size_t bytes) override;

  std::size_t packet_bytes() const override { return kPacketPayload; }
  std::size_t packets_at_once() const override { return kPacketsAtOnce; }

  void send_packet(int to, std::uint64_t mark, const void* data, std::size_t bytes) override {
    Outgoing packet;
    packet.bytes.resize(sizeof(PacketHeader) + bytes);
    const PacketHeader header{mark, bytes};
    std::memcpy(packet.bytes.data(), &header, sizeof(header));
    if (bytes > 0) std::memcpy(packet.bytes.data() + sizeof(header), data, bytes);
    guarded(to, [&] {
      reap_packets();
      outgoing_.push_back(std::move(packet));  // the bytes stay at their address
      Outgoing& last = outgoing_.back();
      require_success(MPI_Isend(last.bytes.data(), static_cast<int>(last.bytes.size()), MPI_BYTE, place(to),
                                packet_tag(), runtime_.communicator(), &last.request),
                      "MPI_Isend");
    });
  }

  const void* wait_packet(int from, std::uint64_t mark, std::size_t bytes) override {
    Incoming& packet = packets_[static_cast<std::size_t>(from)];
    wait_until(from, [&] {
      int done = 0;
      require_success(MPI_Test(&packet.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      return done != 0;
    });
    PacketHeader header{};
    std::memcpy(&header, packet.bytes.data(), sizeof(header));
    if (header.mark != mark || header.bytes != bytes) wait_for_break();
    return packet.bytes.data() + sizeof(header);
  }

  void release_packet(int from) override { post_packet(from); }

  bool sees_losses() const override { return false; }  // MPI does not report a rank that is gone
  std::vector<int> lost_peers() override { return {}; }

  std::uint64_t guard(Deadline deadline) override {
    const std::lock_guard<std::mutex> lock(guards_mutex_);
    return guards_.add(deadline);
  }
  void release_guard(std::uint64_t guard) override {
    const std::lock_guard<std::mutex> lock(guards_mutex_);
    guards_.remove(guard);
  }

  void break_connections() noexcept override {
    {
      const std::lock_guard<std::mutex> lock(guards_mutex_);
      broken_ = true;
    }
    broke_.notify_all();
  }

  /// Calls MPI, under its lock. @throws MeshError  if it fails; `peer` is the other rank of the call
  template <typename Call>
  void guarded(int peer, const Call& call) {
    try {
      const std::lock_guard<std::mutex> lock(runtime_.mutex);
      if (broken_ || !runtime_.usable()) throw why_broken();
      call();
    } catch (const MeshError&) {
      throw;
    } catch (const std::exception& error) {
      fail(peer, error.what());
    }
  }

  /// Polls until `done`, which calls MPI. Spins briefly, because most waits are short, then sleeps between polls.
  template <typename Done>
  void wait_until(int peer, const Done& done) {
    for (int polls = 1;; ++polls) {
      bool ended = false;
      guarded(peer, [&] { ended = done(); });
      if (ended) return;
      if (polls < kPollsBeforeSleep) {
        if (polls % kPollsPerYield == 0) std::this_thread::yield();
        continue;
      }
      look_at_guards();
      const timespec pause{0, kSleep_ns};
      ::nanosleep(&pause, nullptr);
    }
  }

  int place(int peer) const { return places_[static_cast<std::size_t>(peer)]; }
  std::size_t size() const { return places_.size(); }
  MpiRuntime& runtime() { return runtime_; }
  bool broken() const { return broken_; }
  // Tags are shorter than the slot's 56 bits: the top bit distinguishes packets from other messages, the rest is a
  // hash. Messages of different operations that are pending at once between two ranks match wrongly with a chance of
  // one in 2^30.
  int message_tag(std::uint64_t slot) const {
    std::uint64_t mixed = (slot ^ salt_) * 0x9e3779b97f4a7c15ull;
    mixed ^= mixed >> 29;
    return static_cast<int>(mixed & ((1ull << (runtime_.tag_bits() - 1)) - 1));
  }

 private:
  struct Outgoing {
    std::vector<char> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Incoming {
    std::vector<char> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  int packet_tag() const { return message_tag(0) | (1 << (runtime_.tag_bits() - 1)); }

  void post_packet(int peer) {
    Incoming& packet = packets_[static_cast<std::size_t>(peer)];
    packet.bytes.resize(sizeof(PacketHeader) + kPacketPayload);
    guarded(peer, [&] {
      require_success(MPI_Irecv(packet.bytes.data(), static_cast<int>(packet.bytes.size()), MPI_BYTE, place(peer),
                                packet_tag(), runtime_.communicator(), &packet.request),
                      "MPI_Irecv");
    });
  }

  void reap_packets() {
    while (!outgoing_.empty()) {
      int done = 0;
      require_success(MPI_Test(&outgoing_.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done == 0) return;
      outgoing_.pop_front();
    }
  }

  // No thread waits any more. Posted requests are cancelled; one that cannot be cancelled makes MPI unusable.
  void take_back() {
    std::vector<MPI_Request*> receives;
    std::vector<MPI_Request*> sends;
    for (Incoming& packet : packets_) receives.push_back(&packet.request);
    for (Outgoing& packet : outgoing_) sends.push_back(&packet.request);
    if (take_back(receives, sends)) return;
    // MPI may still read this memory, although it is not called any more.
    static auto* const kept = new std::deque<Outgoing>();
    const std::lock_guard<std::mutex> lock(runtime_.mutex);
    for (Outgoing& packet : outgoing_) kept->push_back(std::move(packet));
  }

 public:
  /// Cancels receives and lets sends end. @return  false if some did not end: MPI is then given up
  bool take_back(const std::vector<MPI_Request*>& receives, const std::vector<MPI_Request*>& sends) {
    const Deadline deadline = Deadline::after(kTakingBack);
    bool cancelled = false;
    for (;;) {
      {
        const std::lock_guard<std::mutex> lock(runtime_.mutex);
        if (!runtime_.usable()) return false;
        int left = 0;
        for (MPI_Request* request : receives) {
          if (*request == MPI_REQUEST_NULL) continue;
          if (!cancelled) MPI_Cancel(request);
          left += ended(*request) ? 0 : 1;
        }
        for (MPI_Request* request : sends) left += *request == MPI_REQUEST_NULL || ended(*request) ? 0 : 1;
        cancelled = true;
        if (left == 0) return true;
        if (deadline.passed()) {
          runtime_.give_up();
          return false;
        }
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

 private:
  static bool ended(MPI_Request& request) {
    int done = 0;
    return MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  }

  [[noreturn]] void fail(int peer, const std::string& error) {
    if (broken_) throw why_broken();
    const MeshError failure(MeshError::Kind::Lost, error, {peer});
    if (on_failure_) on_failure_(failure);
    break_connections();
    throw failure;
  }

  // The packet belongs to another operation: the ranks disagree, and the supervisor will find out.
  [[noreturn]] void wait_for_break() {
    std::unique_lock<std::mutex> lock(guards_mutex_);
    while (!broken_) {
      lock.unlock();
      look_at_guards();
      lock.lock();
      broke_.wait_for(lock, milliseconds(50), [&] { return broken_.load(); });
    }
    lock.unlock();
    throw why_broken();
  }

  void look_at_guards() {
    const std::lock_guard<std::mutex> lock(guards_mutex_);
    if (broken_) return;
    if (guards_.any_passed()) late_ = broken_ = true;
  }

  MeshError why_broken() {
    if (late_) return MeshError(MeshError::Kind::Timeout, "a deadline passed");
    if (!broken_) return MeshError(MeshError::Kind::Lost, "MPI was given up after a failure of another group");
    return MeshError(MeshError::Kind::Broken, "the group was broken here");
  }

  MpiRuntime& runtime_;
  const std::uint64_t salt_;
  const std::function<void(const MeshError&)> on_failure_;
  std::vector<int> places_;        // by peer: its rank in MPI's world
  std::vector<Incoming> packets_;  // by peer: the packet that is awaited or read
  std::deque<Outgoing> outgoing_;  // oldest first; guarded by the runtime's mutex
  std::atomic<bool> broken_{false};
  std::atomic<bool> late_{false};

  std::mutex guards_mutex_;  // guards the members below
  std::condition_variable broke_;
  DeadlineGuards guards_;
};

class MpiBuffer : public MeshBuffer {
 public:
  MpiBuffer(MpiMesh& mesh, void* data) : mesh_(mesh), data_(static_cast<char*>(data)) {}

  ~MpiBuffer() override {
    if (sends_.empty() && receives_.empty()) return;
    mesh_.break_connections();
    std::vector<MPI_Request*> receives;
    std::vector<MPI_Request*> sends;
    for (MpiMessage& message : receives_) {
      for (MPI_Request& request : message.requests) receives.push_back(&request);
    }
    for (MpiMessage& message : sends_) {
      for (MPI_Request& request : message.requests) sends.push_back(&request);
    }
    mesh_.take_back(receives, sends);
  }

  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    sends_.push_back(start(to, offset, bytes, [&](char* at, int count, MPI_Request* request) {
      // Synchronous: the send ends when the receiver has the message, so a sender stays until its message has arrived.
      require_success(MPI_Issend(at, count, MPI_BYTE, mesh_.place(to), mesh_.message_tag(slot),
                                 mesh_.runtime().communicator(), request),
                      "MPI_Issend");
    }));
  }

  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    receives_.push_back(start(from, offset, bytes, [&](char* at, int count, MPI_Request* request) {
      require_success(MPI_Irecv(at, count, MPI_BYTE, mesh_.place(from), mesh_.message_tag(slot),
                                mesh_.runtime().communicator(), request),
                      "MPI_Irecv");
    }));
  }

  void wait_sent() override { wait_for_one(sends_); }
  void wait_received() override { wait_for_one(receives_); }

 private:
  template <typename Start>
  MpiMessage start(int peer, std::size_t offset, std::size_t bytes, const Start& start_piece) {
    MpiMessage message;
    message.peer = peer;
    mesh_.guarded(peer, [&] {
      for (std::size_t done = 0; done < bytes || done == 0; done += kLargestPiece) {
        const std::size_t length = std::min(kLargestPiece, bytes - done);
        message.requests.push_back(MPI_REQUEST_NULL);
        start_piece(data_ + offset + done, static_cast<int>(length), &message.requests.back());
      }
    });
    return message;
  }

  // Checks the oldest message with each peer: messages of one rank end in order.
  void wait_for_one(std::deque<MpiMessage>& messages) {
    const auto complete = [](MpiMessage& message) {
      int done = 0;
      require_success(
          MPI_Testall(static_cast<int>(message.requests.size()), message.requests.data(), &done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
      return done != 0;
    };
    mesh_.wait_until(messages.front().peer, [&] {
      looked_at_.assign(mesh_.size(), false);
      for (auto message = messages.begin(); message != messages.end(); ++message) {
        const auto peer = static_cast<std::size_t>(message->peer);
        if (looked_at_[peer]) continue;
        looked_at_[peer] = true;
        if (!complete(*message)) continue;
        messages.erase(message);
        return true;
      }
      return false;
    });
  }

  MpiMesh& mesh_;
  char* const data_;
  std::deque<MpiMessage> sends_;
  std::deque<MpiMessage> receives_;
  std::vector<bool> looked_at_;  // by peer
};

std::unique_ptr<MeshBuffer> MpiMesh::buffer(void* data, std::size_t) {
  return std::make_unique<MpiBuffer>(*this, data);
}

}  // namespace
}  // namespace lockstep

lockstep::Mesh* lockstep_make_mpi_mesh(const lockstep::MpiMeshOptions* options) {
  try {
    return new lockstep::MpiMesh(*options);
  } catch (const lockstep::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw lockstep::Error(std::string("MPI cannot be used: ") + error.what(), "engine mpi",
                          "see that a plain MPI program runs under the same mpirun");
  }
}

void lockstep_tell_by_mpi(std::string* text, const lockstep::Deadline* deadline) {
  lockstep::MpiRuntime::get(*deadline).broadcast(*text, *deadline);
}
