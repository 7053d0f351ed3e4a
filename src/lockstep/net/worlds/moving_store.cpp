#include "lockstep/net/worlds/moving_store.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/sockets/signal_mask.h"
#include "lockstep/net/store/prefix_store.h"
#include "lockstep/net/store/store_protocol.h"
#include "lockstep/net/store_errors.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kToConnect{1000};
// If the kernel gives no more watches to this user, the file is looked at in place of being watched.
constexpr milliseconds kBetweenLooksAtTheFile{50};

}  // namespace

MovingStore::MovingStore(std::shared_ptr<StoreClient> client, JoinRequest self, int round, std::string file)
    : self_(std::move(self)), round_(round), file_(std::move(file)), client_(std::move(client)) {
  const std::optional<StoreMove> newest = read_store_move(file_);
  if (!newest) return;
  const bool is_there = newest->address == client_->address().text();
  era_ = is_there ? newest->era : newest->era - 1;
  if (!is_there) take_news(*newest);
}

void MovingStore::watch_no_more() {
  if (!thread_.joinable()) return;
  if (!home_.is_here()) {
    thread_.detach();
    return;
  }
  const std::uint64_t one = 1;
  while (::write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
}

std::shared_ptr<StoreClient> MovingStore::client() const {
  const std::lock_guard lock(mutex_);
  return client_;
}

std::int64_t MovingStore::era() const {
  const std::lock_guard lock(mutex_);
  return era_;
}

void MovingStore::watch(std::function<void()> on_move) {
  on_move_ = std::move(on_move);
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  UniqueFd changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  const std::string folder = std::filesystem::path(file_).parent_path();
  if (changes && ::inotify_add_watch(changes.get(), folder.c_str(), IN_MOVED_TO) < 0) changes.reset();
  const SignalsBlocked blocked;
  thread_ = start_thread("watches where the store is", [this, changes = std::move(changes)] { watch_file(changes); });
}

void MovingStore::watch_file(const UniqueFd& changes) {
  for (;;) {
    try {
      if (const auto move = newer_store()) take_news(*move);
    } catch (const Error& error) {
      log_warning("{}", error.happened());
    }
    std::array<pollfd, 2> events{pollfd{stop_.get(), POLLIN, 0}, pollfd{changes.get(), POLLIN, 0}};
    ::poll(events.data(), events.size(), changes ? -1 : static_cast<int>(kBetweenLooksAtTheFile.count()));
    if (events[0].revents != 0) return;
    alignas(inotify_event) std::array<char, 4096> names{};
    while (changes && ::read(changes.get(), names.data(), names.size()) > 0) {
    }
  }
}

std::optional<StoreMove> MovingStore::newer_store() const {
  std::optional<StoreMove> newest = read_store_move(file_);
  const std::lock_guard lock(mutex_);
  if (newest && (newest->era <= era_ || (news_ && newest->era <= news_->era))) newest.reset();
  return newest;
}

// `follow` waits until this is done, so what `on_move` ends is not yet the group that follows.
void MovingStore::take_news(const StoreMove& move) {
  client()->abandon("the job's store is at " + move.address + " now");
  if (on_move_) on_move_();
  {
    const std::lock_guard lock(mutex_);
    news_ = move;
  }
  changed_.notify_all();
}

StoreMove MovingStore::await_news(Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (!news_ || news_->era <= era_) {
    if (deadline.passed()) {
      throw TimeoutError("the job's store is lost, and the launcher has not said which host serves it now",
                         client_->address().text(), "see what the launchers wrote");
    }
    changed_.wait_for(lock, deadline.remaining());
  }
  return *news_;
}

StoreMove MovingStore::follow(Deadline deadline) {
  for (;;) {
    const StoreMove move = await_news(deadline);
    StoreClientOptions options;
    options.where = describe(self_.self);
    std::shared_ptr<StoreClient> next;
    try {
      next = std::make_shared<StoreClient>(SocketAddress::parse(move.address), secret_from_environment(),
                                           Deadline::after(std::min(kToConnect, deadline.remaining())), options);
    } catch (const TimeoutError& error) {  // its host may be lost, too, so there may be news
      if (deadline.passed()) throw;
      log_info("{}", error.happened());
      continue;
    }
    const JoinResult entered = next->enter(self_, deadline);
    if (entered.round != round_) {
      throw Error("this process's group is not the first one of the job, and the job's store was lost",
                  describe(self_.self), "call init_process_group once if ranks are to survive a lost host");
    }
    const std::lock_guard lock(mutex_);
    client_ = std::move(next);
    era_ = move.era;
    return move;
  }
}

std::shared_ptr<MovingStore> moving_store_below(const std::shared_ptr<Store>& store) {
  if (const auto moving = std::dynamic_pointer_cast<MovingStore>(store)) return moving;
  const auto prefixed = std::dynamic_pointer_cast<PrefixStore>(store);
  return prefixed ? moving_store_below(prefixed->underlying()) : nullptr;
}

}  // namespace lockstep
