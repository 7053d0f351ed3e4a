#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/base/files/unique_fd.h"
#include "lockstep/comm/tcp/message_link.h"
#include "lockstep/net/peers/peer_door.h"
#include "lockstep/net/sockets/socket_poller.h"

namespace lockstep {

/// The thread of a mesh: moves the bytes of its links while the ranks compute, and opens the door to those that
/// connect. It sleeps in epoll_wait(2), and ends at `stop`.
class LinkLoop {
 public:
  /// Called on the thread.
  class Events {
   public:
    virtual ~Events() = default;
    virtual void arrived(PeerDoor::Guest guest) = 0;
    virtual void ended(int peer) = 0;
    /// About every second.
    virtual void tick() = 0;
  };

  /// @param size  ranks of the group
  LinkLoop(std::unique_ptr<PeerDoor> door, int size, Events& events);
  ~LinkLoop();  ///< stops, and joins the thread
  LinkLoop(const LinkLoop&) = delete;
  LinkLoop& operator=(const LinkLoop&) = delete;

  /// The link's connections are read from now on; it must live until the thread has ended. Thread-safe, like all below.
  void add(int peer, MessageLink& link);
  /// Has the thread look at what a link wants to write.
  void look_at(int peer);
  /// All have connected: closes the door.
  void close_door();
  /// The thread ends soon; does not wait for that.
  void stop() noexcept;

 private:
  struct Watched {
    MessageLink* link = nullptr;
    bool grants_end = false;
    bool ended = false;
  };
  void run();
  void handle(const SocketPoller::Event& event);
  void take_orders();
  void serve_door();
  void write(int peer);
  void end(int peer);
  void wake() noexcept;

  Events& events_;
  const UniqueFd wake_;
  SocketPoller poller_;             // of the thread, once it runs
  std::unique_ptr<PeerDoor> door_;  // likewise
  std::vector<Watched> watched_;    // by peer; likewise
  std::chrono::steady_clock::time_point next_tick_;
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;  // guards the members below
  bool woken_ = false;
  bool door_closes_ = false;
  std::vector<int> orders_;          // peers to look at
  std::vector<MessageLink*> added_;  // by peer; null once the thread has it

  std::thread thread_;
};

}  // namespace lockstep
