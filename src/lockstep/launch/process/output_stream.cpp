#include "lockstep/launch/process/output_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

OutputStream::OutputStream(EventLoop& loop, Targets targets) : loop_(loop), targets_(std::move(targets)) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error("cannot make a pipe for a rank's output: " + errno_text(errno), "the launcher", "raise ulimit -n");
  }
  read_end_ = UniqueFd(ends[0]);
  write_end_ = UniqueFd(ends[1]);
  ::fcntl(read_end_.get(), F_SETFL, O_NONBLOCK);  // only for this end
  if (targets_.prefix) prefix_.emplace(*targets_.prefix);
  watch();
}

OutputStream::~OutputStream() { loop_.forget(watch_); }

void OutputStream::watch() {
  watch_ = loop_.watch_readable(read_end_.get(), [this] { read_some(); });
}

void OutputStream::resume() {
  if (watch_ == 0 && read_end_) watch();
}

void OutputStream::read_some() {
  if (targets_.console != nullptr && targets_.console->is_full()) {
    loop_.forget(std::exchange(watch_, 0));
    return;
  }
  if (take_piece() == Got::End) {
    loop_.forget(std::exchange(watch_, 0));
    read_end_.reset();
    targets_.file.reset();
  }
}

OutputStream::Got OutputStream::take_piece() {
  std::array<char, 16 * 1024> piece;
  const ssize_t got = ::read(read_end_.get(), piece.data(), piece.size());
  if (got > 0) pass_on({piece.data(), static_cast<std::size_t>(got)});
  if (got > 0 || (got < 0 && errno == EINTR)) return Got::Some;
  return got < 0 && errno == EAGAIN ? Got::Nothing : Got::End;
}

void OutputStream::pass_on(std::string_view piece) {
  tail_.feed(piece);
  if (targets_.file && !write_all(targets_.file.get(), piece)) {
    log_warning("the log of {} cannot be written any more: {}; it ends here, and the rank continues", targets_.name,
                errno_text(errno));
    targets_.file.reset();
  }
  if (targets_.console != nullptr) targets_.console->write(prefix_ ? prefix_->feed(piece) : std::string(piece));
}

void OutputStream::drain() {
  // A pipe holds 64 KiB by default; after that many pieces, the output is from a process that still writes.
  for (int pieces = 0; read_end_ && pieces < 64 && take_piece() == Got::Some; ++pieces) {
  }
}

void OutputStream::finish() {
  write_end_.reset();
  drain();
  loop_.forget(std::exchange(watch_, 0));
  read_end_.reset();
  if (prefix_ && targets_.console != nullptr) targets_.console->write(prefix_->finish());
}

}  // namespace lockstep
