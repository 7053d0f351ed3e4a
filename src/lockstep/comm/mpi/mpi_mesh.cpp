// Only this file and mpi_runtime.cpp include MPI. They form a separate module, loaded when the engine is used, so that
// other programs do not depend on MPI. They include no LibTorch.
#include "lockstep/comm/mpi/mpi_mesh.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/mesh/guarded_mesh.h"
#include "lockstep/comm/mpi/message_tags.h"
#include "lockstep/comm/mpi/mpi_runtime.h"
#include "lockstep/comm/mpi/poll_pause.h"

namespace lockstep {
namespace {

/// MPI's counts are ints.
constexpr std::size_t kLargestPiece = 1 << 30;
/// With its header a packet stays below the size up to which Open MPI's transports send without asking the receiver (4
/// KiB).
constexpr std::size_t kPacketPayload = 3968;
constexpr std::size_t kPacketsAtOnce = 16;

struct PacketHeader {
  std::uint64_t mark;
  std::uint64_t bytes;
};

// One message: several requests if it is longer than MPI can count.
struct MpiMessage {
  int peer = 0;
  std::vector<MPI_Request> requests;
};

class MpiMesh : public GuardedMesh {
 public:
  explicit MpiMesh(const MpiMeshOptions& options)
      : runtime_(MpiRuntime::get(options.deadline)),
        tags_(options.group, runtime_.tag_bits()),
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
    Packet packet;
    packet.bytes.resize(sizeof(PacketHeader) + bytes);
    const PacketHeader header{mark, bytes};
    std::memcpy(packet.bytes.data(), &header, sizeof(header));
    if (bytes > 0) std::memcpy(packet.bytes.data() + sizeof(header), data, bytes);
    guarded(to, [&] {
      reap_packets();
      outgoing_.push_back(std::move(packet));  // the bytes stay at their address
      Packet& last = outgoing_.back();
      require_success(MPI_Isend(last.bytes.data(), static_cast<int>(last.bytes.size()), MPI_BYTE, place(to),
                                tags_.packet(), runtime_.communicator(), &last.request),
                      "MPI_Isend");
    });
  }

  const void* wait_packet(int from, std::uint64_t mark, std::size_t bytes) override {
    Packet& packet = packets_[static_cast<std::size_t>(from)];
    wait_until(from, [&] {
      int done = 0;
      require_success(MPI_Test(&packet.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      return done != 0;
    });
    PacketHeader header{};
    std::memcpy(&header, packet.bytes.data(), sizeof(header));
    if (header.mark != mark || header.bytes != bytes) throw_once_broken([this] { break_if_late(); });
    return packet.bytes.data() + sizeof(header);
  }

  void release_packet(int from) override { post_packet(from); }

  bool sees_losses() const override { return false; }  // MPI does not report a rank that is gone
  std::vector<int> lost_peers() override { return {}; }

  void break_connections() noexcept override { mark_broken(); }

  /// Calls MPI, under its lock. @throws MeshError  if it fails; `peer` is the other rank of the call
  template <typename Call>
  void guarded(int peer, const Call& call) {
    try {
      const std::lock_guard<std::mutex> lock(runtime_.mutex);
      if (broken()) throw why_broken();
      if (!runtime_.usable()) {
        throw MeshError(MeshError::Kind::Lost, "MPI was given up after a failure of another group");
      }
      call();
    } catch (const MeshError&) {
      throw;
    } catch (const std::exception& error) {
      fail(peer, error.what());
    }
  }

  /// Polls until `done`, which calls MPI.
  template <typename Done>
  void wait_until(int peer, const Done& done) {
    for (PollPause pause;; pause.take()) {
      bool ended = false;
      guarded(peer, [&] { ended = done(); });
      if (ended) return;
      if (pause.sleeps()) break_if_late();
    }
  }

  int place(int peer) const { return places_[static_cast<std::size_t>(peer)]; }
  std::size_t size() const { return places_.size(); }
  MpiRuntime& runtime() { return runtime_; }
  int tag_of(std::uint64_t slot) const { return tags_.message(slot); }

 private:
  struct Packet {
    std::vector<char> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void post_packet(int peer) {
    Packet& packet = packets_[static_cast<std::size_t>(peer)];
    packet.bytes.resize(sizeof(PacketHeader) + kPacketPayload);
    guarded(peer, [&] {
      require_success(MPI_Irecv(packet.bytes.data(), static_cast<int>(packet.bytes.size()), MPI_BYTE, place(peer),
                                tags_.packet(), runtime_.communicator(), &packet.request),
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
    for (Packet& packet : packets_) receives.push_back(&packet.request);
    for (Packet& packet : outgoing_) sends.push_back(&packet.request);
    if (runtime_.take_back(receives, sends)) return;
    // MPI may still read this memory, although it is not called any more.
    static auto* const kept = new std::deque<Packet>();
    const std::lock_guard<std::mutex> lock(runtime_.mutex);
    for (Packet& packet : outgoing_) kept->push_back(std::move(packet));
  }

  [[noreturn]] void fail(int peer, const std::string& error) {
    if (broken()) throw why_broken();
    const MeshError failure(MeshError::Kind::Lost, error, {peer});
    if (on_failure_) on_failure_(failure);
    break_connections();
    throw failure;
  }

  // The threads that wait look themselves: MPI has no thread for that.
  void break_if_late() {
    look_at_guards([this] { mark_broken_under_lock(); });
  }

  MpiRuntime& runtime_;
  const MessageTags tags_;
  const std::function<void(const MeshError&)> on_failure_;
  std::vector<int> places_;      // by peer: its rank in MPI's world
  std::vector<Packet> packets_;  // by peer: the packet that is awaited or read
  std::deque<Packet> outgoing_;  // oldest first; guarded by the runtime's mutex
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
    mesh_.runtime().take_back(receives, sends);
  }

  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    sends_.push_back(start(to, offset, bytes, [&](char* at, int count, MPI_Request* request) {
      // Synchronous: the send ends when the receiver has the message, so a sender stays until its message has arrived.
      require_success(
          MPI_Issend(at, count, MPI_BYTE, mesh_.place(to), mesh_.tag_of(slot), mesh_.runtime().communicator(), request),
          "MPI_Issend");
    }));
  }

  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    receives_.push_back(start(from, offset, bytes, [&](char* at, int count, MPI_Request* request) {
      require_success(MPI_Irecv(at, count, MPI_BYTE, mesh_.place(from), mesh_.tag_of(slot),
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
                          "check that a plain MPI program runs under the same mpirun");
  }
}

void lockstep_tell_by_mpi(std::string* text, const lockstep::Deadline* deadline) {
  lockstep::MpiRuntime::get(*deadline).broadcast(*text, *deadline);
}
