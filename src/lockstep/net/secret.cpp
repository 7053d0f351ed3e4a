#include "lockstep/net/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/hmac.h"

namespace lockstep {
namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kMinDigits = 32;
constexpr std::size_t kMaxDigits = 4096;
constexpr const char* kDigits = "0123456789abcdefABCDEF";

[[noreturn]] void refuse(const std::string& what, const std::string& source, const std::string& fix) {
  throw Error("the job's secret cannot be used: " + what, source, fix);
}

std::string checked(const std::string& secret, const std::string& source) {
  const bool is_hexadecimal = secret.find_first_not_of(kDigits) == std::string::npos;
  if (!is_hexadecimal || secret.size() < kMinDigits || secret.size() > kMaxDigits) {
    refuse(fmt::format("it has {} characters{}; {} to {} random hexadecimal digits are needed, because anyone who "
                       "reads the network can guess at a secret that a person chose",
                       secret.size(), is_hexadecimal ? "" : ", not all of them hexadecimal digits", kMinDigits,
                       kMaxDigits),
           source, "make one with `openssl rand -hex 32`, the same for all ranks");
  }
  return secret;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kWhite = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kWhite);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhite) - first + 1);
}

// Checks and reads one open file, so that no process can exchange it in between.
std::string read_private_file(const std::string& path, const std::string& source) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) refuse("cannot open " + path + ": " + errno_text(errno), source, "check the path and that you may read it");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    refuse(path + " is not a regular file", source, "name a file that holds the secret");
  }
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    refuse(fmt::format("{} belongs to user {}", path, status.st_uid), source, "use a file of your own");
  }
  if ((status.st_mode & 077) != 0) {
    refuse(fmt::format("{} is open to others (mode {:04o})", path, status.st_mode & 07777), source,
           "chmod 600 " + path + ", and make a new secret if others may have read this one");
  }
  std::array<char, kMaxDigits + 2> block{};
  const ssize_t got = ::read(fd.get(), block.data(), block.size());
  if (got < 0) refuse("cannot read " + path + ": " + errno_text(errno), source, "check the file");
  return std::string(block.data(), static_cast<std::size_t>(got));
}

}  // namespace

std::string make_secret() { return to_hex(random_bytes(kSecretBytes)); }

std::string secret_from_environment() {
  if (const auto secret = env_string("LOCKSTEP_SECRET")) return checked(*secret, "LOCKSTEP_SECRET");
  const auto path = env_string("LOCKSTEP_SECRET_FILE");
  if (!path) return {};
  return checked(trimmed(read_private_file(*path, "LOCKSTEP_SECRET_FILE")), "LOCKSTEP_SECRET_FILE");
}

}  // namespace lockstep
