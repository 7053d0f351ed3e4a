#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

class TcpBuffer;

/// What a buffer needs of its mesh.
class TcpTraffic {
 public:
  virtual ~TcpTraffic() = default;
  virtual void enter(TcpBuffer& buffer) = 0;
  /// Breaks the connections if messages of this buffer may be pending, and returns when nothing refers to it.
  virtual void leave(TcpBuffer& buffer, bool pending) = 0;
  virtual void post_send(int to, std::uint64_t slot, TcpBuffer& owner, std::byte* data, std::size_t bytes) = 0;
  virtual void post_recv(int from, std::uint64_t slot, TcpBuffer& owner, std::byte* data, std::size_t bytes) = 0;
  virtual bool is_broken() const = 0;
  /// Throws why messages fail. @param reason  empty if the mesh was broken
  [[noreturn]] virtual void fail(const std::string& reason) = 0;
};

class TcpBuffer : public MeshBuffer {
 public:
  TcpBuffer(TcpTraffic& mesh, void* data, std::size_t bytes);
  ~TcpBuffer() override;

  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override;
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override;
  void wait_sent() override { wait(ended_sends_, pending_sends_); }
  void wait_received() override { wait(ended_receives_, pending_receives_); }

  /// From the mesh's thread.
  void sent() { end(ended_sends_); }
  void received() { end(ended_receives_); }
  void failed(const std::string& reason);
  /// Wakes the waiters, because the mesh is broken.
  void wake();

 private:
  std::byte* place(std::size_t offset, std::size_t bytes) const;
  void end(int& count);
  void wait(int& ended, int& pending);

  TcpTraffic& mesh_;
  std::byte* const data_;
  const std::size_t bytes_;
  int pending_sends_ = 0;  // of the caller's thread
  int pending_receives_ = 0;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  int ended_sends_ = 0;
  int ended_receives_ = 0;
  std::string failure_;
};

}  // namespace lockstep
