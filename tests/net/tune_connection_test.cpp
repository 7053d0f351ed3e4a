// Tests what the kernel is told about connections between processes.
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <optional>

#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/sockets/socket.h"

namespace lockstep {
namespace {

// Nothing if this kernel does not know the option.
std::optional<int> tcp_option(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof(value);
  if (::getsockopt(fd, IPPROTO_TCP, option, &value, &size) != 0) return std::nullopt;
  return value;
}

TEST(TuneConnection, SendsAtOnceAndEndsWhenTheOtherHostVanishes) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  tune_connection(fd.get());
  EXPECT_EQ(tcp_option(fd.get(), TCP_NODELAY), 1);
  EXPECT_EQ(tcp_option(fd.get(), TCP_USER_TIMEOUT), 15000);
}

TEST(TuneConnection, SendsLostBytesAgainEachSecond) {
  constexpr int kTcpRtoMaxMs = 44;
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!tcp_option(fd.get(), kTcpRtoMaxMs)) GTEST_SKIP() << "Linux before 6.15 has no limit for the pause";
  tune_connection(fd.get());
  EXPECT_EQ(tcp_option(fd.get(), kTcpRtoMaxMs), 1000);
}

}  // namespace
}  // namespace lockstep
