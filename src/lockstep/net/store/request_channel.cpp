#include "lockstep/net/store/request_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/net/sockets/signal_mask.h"
#include "lockstep/net/store/wire.h"
#include "lockstep/net/store_errors.h"

namespace lockstep {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;

// How long the answer to a cancelled request may take: the server answers at once, unless it is stopped.
constexpr milliseconds kCancelTime{5000};

bool is_tcp(const SocketAddress& address) { return address.kind == SocketAddress::Kind::Tcp; }

std::string request(StoreOperation operation, std::uint64_t number, const std::string& fields) {
  WireWriter message;
  message.u8(static_cast<std::uint8_t>(operation));
  message.u64(number);
  message.raw(fields);
  return message.bytes();
}

}  // namespace

RequestChannel::RequestChannel(const SocketAddress& address, const std::string& secret, Deadline deadline,
                               const StoreClientOptions& options)
    : address_(address),
      options_(options),
      where_(options.where.empty() ? fmt::format("process {}", ::getpid()) : options.where),
      connection_(connect_to_store(address, secret, deadline, where_)),
      reader_(is_tcp(address) ? opening_seal(connection_.keys.server_to_client, connection_.keys.encrypted)
                              : FrameSeal()),
      writer_(is_tcp(address) ? sealing_seal(connection_.keys.client_to_server, connection_.keys.encrypted)
                              : FrameSeal()),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw Error("cannot create an eventfd: " + errno_text(errno), where_, "raise the limit of open files");
  const SignalsBlocked blocked;
  thread_ = start_thread("speaks to the store", [this] { run(); });
}

RequestChannel::~RequestChannel() {
  if (!home_.is_here()) {  // a forked child: the thread is the parent's
    thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void RequestChannel::wake() {
  const std::uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void RequestChannel::close(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    fail_all(reason);
  }
  wake();
}

void RequestChannel::abandon(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    fail_lost(reason);
  }
  wake();
}

bool RequestChannel::usable() {
  const std::lock_guard lock(mutex_);
  return closed_.empty();
}

void RequestChannel::throw_closed(const std::string& what) const {
  const StoreLostError error(fmt::format("{} failed: {}", what, closed_), where_,
                             "see how the process that serves the store ended: rank 0, or the launcher");
  if (lost_) throw_caused(error, {FailureCause::Kind::LostPeer, -1});
  throw error;
}

void RequestChannel::fail_all(const std::string& reason) {
  if (closed_.empty()) closed_ = reason;
  for (auto& [number, call] : calls_) {
    call->done = true;
    call->ended.notify_all();
  }
  calls_.clear();
}

void RequestChannel::fail_lost(const std::string& cause) {
  lost_ = lost_ || closed_.empty();
  fail_all(fmt::format("lost the store at {}: {}", address_.text(), cause));
}

void RequestChannel::push(StoreOperation operation, std::uint64_t number, const std::string& fields) {
  writer_.push(request(operation, number, fields));
  try {
    writer_.flush(connection_.fd.get());
  } catch (const WireError& error) {
    fail_lost(error.happened());
  }
  if (writer_.pending_bytes() > 0) wake();  // the thread sends the rest
}

void RequestChannel::check_request(const std::string& fields, const std::string& what) const {
  if (!home_.is_here()) {
    throw Error(what + " failed: this process was forked from the one that connected to the store", where_,
                "connect again in the child, or start it with exec");
  }
  constexpr std::size_t kOverhead = 16;
  if (fields.size() + kOverhead > kMaxFrameBytes) {
    throw Error(fmt::format("{} failed: the request has {} bytes, more than {}", what, fields.size(), kMaxFrameBytes),
                where_, "send large data through a collective; the store is for addresses and small facts");
  }
}

std::string RequestChannel::call(StoreOperation operation, const std::string& fields, Deadline deadline,
                                 AtDeadline at_deadline, const std::string& what) {
  check_request(fields, what);
  Call call;
  const auto wait_until = [&call](std::unique_lock<std::mutex>& lock, Deadline limit) {
    while (!call.done && !limit.passed()) call.ended.wait_for(lock, limit.remaining());
  };
  std::unique_lock lock(mutex_);
  if (!closed_.empty()) throw_closed(what);
  const std::uint64_t number = next_number_++;
  calls_[number] = &call;
  push(operation, number, fields);
  wait_until(lock, deadline);
  if (!call.done && at_deadline == AtDeadline::Cancel) {
    WireWriter cancelled;
    cancelled.u64(number);
    push(StoreOperation::Cancel, 0, cancelled.bytes());
    wait_until(lock, Deadline::after(kCancelTime));
  }
  if (!call.done) {
    calls_.erase(number);
    throw TimeoutError(
        fmt::format("{} failed: the store at {} does not answer", what, address_.text()), where_,
        "see whether the process that serves it, rank 0 or the launcher, is stopped or its host overloaded");
  }
  if (call.answer.empty()) throw_closed(what);
  lock.unlock();
  return fields_of(call.answer);
}

std::string RequestChannel::fields_of(const std::string& answer) const {
  WireReader reader(answer);
  reader.u64();
  const auto status = static_cast<StoreStatus>(reader.u8());
  constexpr std::size_t kAnswerHeaderBytes = 9;
  if (status == StoreStatus::Ok) return answer.substr(kAnswerHeaderBytes);
  const std::string what = reader.text(kMaxMessageBytes);
  const std::string fix = reader.text(kMaxMessageBytes);
  const std::string where = where_ + ", store at " + address_.text();
  if (status == StoreStatus::TimedOut) throw TimeoutError(what, where, fix);
  throw Error(what, where, fix);
}

void RequestChannel::run() {
  auto next_heartbeat = Clock::now() + options_.heartbeat_interval;
  for (;;) {
    std::array<pollfd, 2> waited{pollfd{connection_.fd.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ || !closed_.empty()) break;
      if (writer_.pending_bytes() > 0) waited[0].events |= POLLOUT;
    }
    const auto slept_from = Clock::now();
    const auto left = std::max(milliseconds(0), std::chrono::ceil<milliseconds>(next_heartbeat - slept_from));
    ::poll(waited.data(), waited.size(), static_cast<int>(left.count()));
    // This process was stopped or starved, which does not count as silence of the server.
    const auto late = Clock::now() - slept_from - left;
    if (unanswered_since_ && late > std::chrono::seconds(1)) *unanswered_since_ += late;
    if (waited[1].revents != 0) {
      std::uint64_t count = 0;
      static_cast<void>(!::read(wake_.get(), &count, sizeof(count)));
    }
    serve_socket(waited[0].revents);
    check_silence();
    if (Clock::now() >= next_heartbeat) {
      send_heartbeat();
      next_heartbeat = Clock::now() + options_.heartbeat_interval;
    }
  }
  ::shutdown(connection_.fd.get(), SHUT_RDWR);  // so that the server sees the end before this object is destroyed
}

void RequestChannel::serve_socket(short events) {
  try {
    if ((events & POLLOUT) != 0) {
      const std::lock_guard lock(mutex_);
      writer_.flush(connection_.fd.get());
    }
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) read_answers();
  } catch (const WireError& error) {
    const std::lock_guard lock(mutex_);
    fail_lost(error.happened());
  }
}

void RequestChannel::read_answers() {
  const bool open = reader_.read_from(connection_.fd.get());
  unanswered_since_.reset();
  while (auto answer = reader_.next()) {
    WireReader fields(*answer);
    const std::uint64_t number = fields.u64();
    fields.u8();
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(number);
    if (found == calls_.end()) continue;  // its caller gave up before
    Call* const call = found->second;
    calls_.erase(found);
    call->answer = std::move(*answer);
    call->done = true;
    call->ended.notify_all();  // under the lock: the caller destroys the call as soon as it continues
  }
  if (!open) throw WireError("connection closed");
}

void RequestChannel::send_heartbeat() {
  const std::lock_guard lock(mutex_);
  const bool asks = options_.silence_limit.count() > 0;
  if (asks && !unanswered_since_) unanswered_since_ = Clock::now();
  // Queued messages are also a sign of life, once they arrive.
  if (closed_.empty() && writer_.pending_bytes() == 0) push(StoreOperation::Heartbeat, asks ? next_number_++ : 0, {});
}

// The kernel of a stopped process still acknowledges what it receives: only answers show that the server lives.
void RequestChannel::check_silence() {
  if (!unanswered_since_ || Clock::now() - *unanswered_since_ <= options_.silence_limit) return;
  const std::lock_guard lock(mutex_);
  fail_lost(fmt::format("it has not answered for {:.1f} s: its process is stopped, or its host is gone",
                        std::chrono::duration<double>(options_.silence_limit).count()));
}

}  // namespace lockstep
