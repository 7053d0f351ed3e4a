#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

/// A forked process that does what it is asked to, one thing after the other, until it is killed. It has no variables
/// of this process but those that `body` has copied.
class StandingProcess {
 public:
  /// @param body  what it does, and answers
  using Body = std::function<std::string(char what)>;

  explicit StandingProcess(Body body) {
    int asked[2], answered[2];
    if (::pipe2(asked, O_CLOEXEC) != 0 || ::pipe2(answered, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(asked[1]);
      serve(asked[0], answered[1], std::move(body));
    }
    ::close(asked[0]);
    ::close(answered[1]);
    asks_ = asked[1];
    answers_ = answered[0];
  }
  ~StandingProcess() {
    kill();
    ::close(asks_);
    ::close(answers_);
  }
  StandingProcess(const StandingProcess&) = delete;
  StandingProcess& operator=(const StandingProcess&) = delete;

  pid_t pid() const { return pid_; }
  void begin(char what) const {
    if (::write(asks_, &what, 1) != 1) throw std::runtime_error("a process that stands by has ended");
  }
  std::string answer() const {
    std::string text;
    for (char letter = 0; ::read(answers_, &letter, 1) == 1 && letter != '\0';) text += letter;
    return text;
  }
  std::string ask(char what) const {
    begin(what);
    return answer();
  }
  /// As a crash ends it, without cleanup.
  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void serve(int asked, int answers, const Body& body) {
    for (char what = 0; ::read(asked, &what, 1) == 1;) {
      const std::string text = body(what);
      if (::write(answers, text.c_str(), text.size() + 1) < 0) break;
    }
    ::_exit(0);
  }

  pid_t pid_ = -1;
  int asks_ = -1;
  int answers_ = -1;
};

}  // namespace lockstep
