#pragma once

// Functions that the tests of `lockstep run` share.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <utility>

#include "lockstep/base/files/unique_fd.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Changes = std::map<std::string, std::optional<std::string>>;

inline const std::string kBin = LOCKSTEP_BIN_DIR;
inline const Changes kNoThreads{{"OMP_NUM_THREADS", {}}, {"OPENBLAS_NUM_THREADS", {}}, {"MKL_NUM_THREADS", {}}};

inline Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

inline Words launch(Words flags, const Words& program) {
  Words words{kBin + "/lockstep", "run"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

inline Words shell(const std::string& script) { return {"sh", "-c", script}; }

inline ProgramEnd run(const Words& flags, const Words& program, const Changes& changes = {}) {
  return run_program(launch(flags, program), changes);
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::string content(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Words sorted_lines(const std::string& text) {
  std::istringstream in(text);
  Words lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The numbers after "NAME=" in a text, such as "child=123".
inline std::vector<pid_t> pids_after(const std::string& text, const std::string& name) {
  std::vector<pid_t> pids;
  const std::regex pattern(name + "=([0-9]+)\n");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    pids.push_back(static_cast<pid_t>(std::stoi((*it)[1])));
  }
  return pids;
}

// A socket bound to a free port of the loopback address, and that port.
inline std::pair<UniqueFd, std::string> bound_socket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return {std::move(fd), std::to_string(ntohs(address.sin_port))};
}

// A free port of the loopback address. Until this goes the kernel gives it to nobody who asks for any port, while those
// who name it, such as launchers, may listen there.
class LoopbackPort {
 public:
  LoopbackPort() : bound_(bound_socket()) {
    const int on = 1;
    ::setsockopt(bound_.first.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  const std::string& text() const { return bound_.second; }

 private:
  const std::pair<UniqueFd, std::string> bound_;
};

// The single folder that a job made in `base`.
inline fs::path job_log(const std::string& base) {
  for (const auto& entry : fs::directory_iterator(base)) return entry.path();
  return {};
}

}  // namespace lockstep
