#include "lockstep/seeing/metrics_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/files/json_number.h"

namespace lockstep {
namespace {

[[noreturn]] void fail_on(const std::string& action, const std::string& path) {
  throw Error("cannot " + action + " " + path + ": " + errno_text(errno), path,
              "check that the folder exists, that you may write to it, and that there is space");
}

bool ends_in_a_line(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || status.st_size == 0) return true;
  char last = 0;
  return ::pread(fd, &last, 1, status.st_size - 1) != 1 || last == '\n';
}

void append(int fd, const std::string& text, const std::string& path) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_on("write to", path);
    done += static_cast<std::size_t>(written);
  }
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644)) {
  if (!fd_) fail_on("open", path_);
  if (!ends_in_a_line(fd_.get())) append(fd_.get(), "\n", path_);
}

void MetricsLog::write(const std::string& kind, std::int64_t step, const nlohmann::json& values) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json line{{"kind", kind},
                              {"step", step},
                              {"time", std::chrono::duration_cast<std::chrono::milliseconds>(now).count() / 1e3}};
  for (const auto& [name, value] : values.items()) {
    line[name] = value.is_number_float() ? json_of_number(value.get<double>()) : value;
  }
  append(fd_.get(), line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", path_);
}

}  // namespace lockstep
