// Only this file, packets.cpp and loop_commands.cpp include Gloo. They include no LibTorch, and only headers from the
// rest of Lockstep, because they may be built as a separate module.
#include "lockstep/comm/gloo/gloo_mesh.h"

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/gloo/connection_probes.h"
#include "lockstep/comm/gloo/loop_commands.h"
#include "lockstep/comm/gloo/packets.h"
#include "lockstep/comm/mesh/guarded_mesh.h"
#include "lockstep/comm/mesh/signal_guard.h"

namespace lockstep {
namespace {

using gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

// The packets of a whole mesh take this much memory, except with very many ranks.
constexpr std::size_t kPacketMemory = 8 << 20;
constexpr std::size_t kSmallestPacket = 1 << 10;
constexpr std::size_t kLargestPacket = 64 << 10;

class GlooMesh : public GuardedMesh {
 public:
  explicit GlooMesh(const GlooMeshOptions& options)
      : rank_(options.rank), size_(options.size), on_failure_(options.on_failure) {
    gloo::transport::tcp::attr attributes(options.address.c_str());
    {
      const BlockAllSignals blocked;  // Gloo's thread inherits the mask
      device_ = std::dynamic_pointer_cast<gloo::transport::tcp::Device>(gloo::transport::tcp::CreateDevice(attributes));
    }
    commands_ = std::make_unique<LoopCommands>(device_, [this] { break_if_late(); });
    bulk_ = device_->createContext(rank_, size_);
    packets_ = device_->createContext(rank_, size_);
    bulk_->setTimeout(kForever);
    packets_->setTimeout(kForever);
    probes_ = std::make_unique<ConnectionProbes>(*bulk_, rank_, size_);
    for (int peer = 0; peer < size_; ++peer) {
      channels_.emplace_back();
      if (peer == rank_) continue;
      bulk_->createPair(peer);
      channels_.back() = std::make_unique<PacketChannel>(*packets_->createPair(peer), rank_ < peer, packet_bytes());
    }
  }

  ~GlooMesh() override {
    break_connections();  // so that no thread of Gloo still reads a buffer, and no other thread starts to break them
    if (late_breaker_.joinable()) late_breaker_.join();
    commands_.reset();
    probes_.reset();
    channels_.clear();  // before the connections to which they refer
  }

  std::string address_for(int peer) override {
    std::string both;
    for (const auto& context : {bulk_, packets_}) {
      const std::vector<char> bytes = context->getPair(peer)->address().bytes();
      both.append(bytes.begin(), bytes.end());
    }
    return both;
  }

  void connect(int peer, const std::string& address) override {
    const auto middle = address.begin() + static_cast<std::ptrdiff_t>(address.size() / 2);
    try {
      bulk_->getPair(peer)->connect(std::vector<char>(address.begin(), middle));
      packets_->getPair(peer)->connect(std::vector<char>(middle, address.end()));
      if (broken()) throw why_broken();
      probes_->watch(peer);
    } catch (const std::exception& error) {
      if (broken()) throw why_broken();
      throw MeshError(MeshError::Kind::Lost, error.what(), {peer});
    }
  }

  std::unique_ptr<MeshBuffer> buffer(void* data, std::size_t bytes) override;
  bool sends_unattended() const override { return true; }  // Gloo's thread and the kernel's buffers send

  std::size_t packet_bytes() const override {
    const std::size_t fair = kPacketMemory / static_cast<std::size_t>(2 * PacketChannel::kRoom * (size_ - 1));
    return std::clamp(fair / 64 * 64, kSmallestPacket, kLargestPacket);
  }
  std::size_t packets_at_once() const override { return PacketChannel::kAtOnce; }

  void send_packet(int to, std::uint64_t mark, const void* data, std::size_t bytes) override {
    try {
      channels_[static_cast<std::size_t>(to)]->send(mark, data, bytes);
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

  const void* wait_packet(int from, std::uint64_t mark, std::size_t bytes) override {
    const void* data = nullptr;
    try {
      data = channels_[static_cast<std::size_t>(from)]->receive(mark, bytes);
    } catch (const std::exception& error) {
      fail(error.what());
    }
    if (data == nullptr) throw_once_broken([] {});  // it belongs to another operation
    return data;
  }

  void release_packet(int from) override {
    try {
      channels_[static_cast<std::size_t>(from)]->release();
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

  bool sees_losses() const override { return true; }
  std::vector<int> lost_peers() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return broken() ? probes_->lost() : probes_->look();
  }

  void break_connections() noexcept override {
    mark_broken();
    commands_->stop();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!std::exchange(closed_, true)) {
      close(*bulk_);
      close(*packets_);
    }
    // Gloo wakes the waiters for messages that have not begun. A message that is half received is left to the timeout.
    for (UnboundBuffer* waiting : buffers_) {
      waiting->abortWaitRecv();
      waiting->abortWaitSend();
    }
  }

  // Throws the MeshError that Gloo's exception means.
  [[noreturn]] void fail(const std::string& error) {
    if (broken()) throw why_broken();
    const MeshError failure(MeshError::Kind::Lost, error, wait_for_lost_peers());
    if (on_failure_) on_failure_(failure);
    break_connections();
    throw failure;
  }

  // Gloo notifies the waiters of a connection one after the other: the probe may be notified later than this thread.
  std::vector<int> wait_for_lost_peers() {
    const Deadline soon = Deadline::after(milliseconds(500));
    std::vector<int> peers = lost_peers();
    while (peers.empty() && !broken() && !soon.passed()) {
      std::this_thread::sleep_for(milliseconds(1));
      peers = lost_peers();
    }
    return peers;
  }

  LoopCommands& commands() { return *commands_; }
  std::unique_ptr<UnboundBuffer> enter(void* data, std::size_t bytes) {
    auto buffer = bulk_->createUnboundBuffer(data, bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    buffers_.insert(buffer.get());
    return buffer;
  }
  void leave(UnboundBuffer* buffer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    buffers_.erase(buffer);
  }

 private:
  // A receive that times out ends all connections of its context, each gently. Closing them one by one would reset
  // them, which ends the process of a peer that is just accepting (Gloo throws there in its own thread).
  static void close(gloo::transport::Context& context) {
    try {
      context.createUnboundBuffer(nullptr, 0)->waitRecv(nullptr, milliseconds(1));
    } catch (const std::exception&) {
    }
  }

  // Runs on Gloo's thread, which must not close connections, because it may be handling an event of one of them. It
  // must not wait for mutex_ either, whose holder may wait for it.
  void break_if_late() {
    look_at_guards([this] { late_breaker_ = std::thread([this] { break_connections(); }); });
  }

  const int rank_;
  const int size_;
  const std::function<void(const MeshError&)> on_failure_;
  std::shared_ptr<gloo::transport::tcp::Device> device_;
  std::unique_ptr<LoopCommands> commands_;
  // Packets have their own connections: Gloo sets these connections' send buffer to the size of one packet, which is
  // far too small for large messages.
  std::shared_ptr<gloo::transport::Context> bulk_;
  std::shared_ptr<gloo::transport::Context> packets_;
  std::unique_ptr<ConnectionProbes> probes_;
  std::vector<std::unique_ptr<PacketChannel>> channels_;  // by peer
  std::mutex mutex_;                                      // guards the members below, and looks at probes
  std::set<UnboundBuffer*> buffers_;
  bool closed_ = false;

  std::thread late_breaker_;  // breaks the connections once a deadline has passed
};

class GlooBuffer : public MeshBuffer {
 public:
  GlooBuffer(GlooMesh& mesh, void* data, std::size_t bytes) : mesh_(mesh), buffer_(mesh.enter(data, bytes)) {}

  ~GlooBuffer() override {
    // Gloo's thread may still write here, and would spin on a send whose buffer is gone.
    if (sending_ > 0 || receiving_ > 0) mesh_.break_connections();
    mesh_.commands().forget(this);
    mesh_.leave(buffer_.get());
  }

  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    ++sending_;
    post([=] { buffer_->send(to, slot, offset, bytes); });
  }

  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    ++receiving_;
    post([=] { buffer_->recv(from, slot, offset, bytes); });
  }

  void wait_sent() override {
    finish([&] { return buffer_->waitSend(nullptr, kForever); });
    --sending_;
  }

  void wait_received() override {
    finish([&] { return buffer_->waitRecv(nullptr, kForever); });
    --receiving_;
  }

 private:
  template <typename Start>
  void post(Start start) {
    mesh_.commands().post(this, [this, start = std::move(start)] {
      try {
        start();
      } catch (const std::exception& error) {
        {
          const std::lock_guard<std::mutex> lock(mutex_);
          error_ = error.what();
        }
        buffer_->abortWaitRecv();
        buffer_->abortWaitSend();
      }
    });
  }

  template <typename Wait>
  void finish(const Wait& wait) {
    bool done = false;
    try {
      done = !mesh_.broken() && wait();
    } catch (const std::exception& error) {
      mesh_.fail(error.what());
    }
    if (done) return;
    std::unique_lock<std::mutex> lock(mutex_);
    const std::string error = error_;
    lock.unlock();
    mesh_.fail(error.empty() ? "connections were broken here" : error);
  }

  GlooMesh& mesh_;
  std::unique_ptr<UnboundBuffer> buffer_;
  int sending_ = 0;
  int receiving_ = 0;
  std::mutex mutex_;   // guards error_
  std::string error_;  // of a failed start
};

std::unique_ptr<MeshBuffer> GlooMesh::buffer(void* data, std::size_t bytes) {
  return std::make_unique<GlooBuffer>(*this, data, bytes);
}

}  // namespace
}  // namespace lockstep

lockstep::Mesh* lockstep_make_gloo_mesh(const lockstep::GlooMeshOptions* options) {
  try {
    return new lockstep::GlooMesh(*options);
  } catch (const std::exception& error) {
    throw lockstep::Error(
        "Gloo cannot listen on " + options->address + ": " + error.what(), "gloo",
        "check that the address belongs to this host; LOCKSTEP_GLOO_INTERFACE names another interface");
  }
}
