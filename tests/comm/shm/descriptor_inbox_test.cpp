// Memory that is passed from process to process: its receivers, and the senders that are refused.
#include "lockstep/comm/shm/memory/descriptor_inbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/memory/memory_segment.h"

namespace lockstep::shm {
namespace {

using std::chrono::milliseconds;

const Label kInboxLabel{{11, 22}, 33};

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Connects to an inbox and sends nothing.
UniqueFd connect_silently(std::uint64_t inbox) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path + 1, 6, "%05x", static_cast<unsigned>(inbox));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 6);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  return fd;
}

// Runs `body` in a separate process; returns its exit status.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(DescriptorInbox, GivesWhatWasSentUnderALabelOnce) {
  DescriptorInbox inbox;
  const UniqueFd memory = create_segment(4096);
  EXPECT_FALSE(inbox.take(kInboxLabel, milliseconds(0)));
  ASSERT_TRUE(send_descriptor(inbox.name(), {{11, 22}, 34}, memory.get(), Deadline::never()));
  ASSERT_TRUE(send_descriptor(inbox.name(), kInboxLabel, memory.get(), Deadline::never()));
  const UniqueFd got = inbox.take(kInboxLabel, milliseconds(0));
  ASSERT_TRUE(got);
  EXPECT_NO_THROW(check_segment(got.get(), 4096));
  EXPECT_FALSE(inbox.take(kInboxLabel, milliseconds(0)));
  EXPECT_TRUE(inbox.take({{11, 22}, 34}, milliseconds(0)));
}

TEST(DescriptorInbox, TakesMemoryOfAProcessThatOthersCannotLookInto) {
  // As for programs with capabilities, and those whose file may be executed but not read: /proc shows nothing of them.
  DescriptorInbox inbox;
  const int status = in_child([&] {
    ::prctl(PR_SET_DUMPABLE, 0);
    const UniqueFd memory = create_segment(8192);
    return send_descriptor(inbox.name(), kInboxLabel, memory.get(), Deadline::never()) ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  const UniqueFd got = inbox.take(kInboxLabel, milliseconds(0));  // the sender has ended
  ASSERT_TRUE(got);
  EXPECT_NO_THROW(check_segment(got.get(), 8192));
}

TEST(DescriptorInbox, IsNotHeldUpByOneWhoConnectsAndIsSilent) {
  DescriptorInbox inbox;
  const UniqueFd silent = connect_silently(inbox.name());
  const UniqueFd memory = create_segment(4096);
  ASSERT_TRUE(send_descriptor(inbox.name(), kInboxLabel, memory.get(), Deadline::never()));
  EXPECT_TRUE(inbox.take(kInboxLabel, milliseconds(0)));
  EXPECT_FALSE(inbox.take(kInboxLabel, milliseconds(5)));
}

TEST(DescriptorInbox, HearsNoOtherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  DescriptorInbox inbox;
  const UniqueFd memory = create_segment(4096);
  const int status = in_child([&] {
    if (::setgid(4711) != 0 || ::setuid(4711) != 0) return 2;
    return send_descriptor(inbox.name(), kInboxLabel, memory.get(), Deadline::never()) ? 1 : 0;
  });
  EXPECT_EQ(status, 0);
  // A sender that does not check its receiver may send, but nothing of it is kept.
  const int rude = in_child([&] {
    if (::setgid(4711) != 0 || ::setuid(4711) != 0) return 2;
    const UniqueFd connection = connect_silently(inbox.name());
    return ::send(connection.get(), &kInboxLabel, sizeof(kInboxLabel), MSG_NOSIGNAL) < 0 ? 1 : 0;
  });
  EXPECT_EQ(rude, 0);
  EXPECT_FALSE(inbox.take(kInboxLabel, milliseconds(5)));
}

TEST(DescriptorInbox, KeepsNothingThatIsMalformed) {
  const std::size_t before = open_descriptors();
  {
    DescriptorInbox inbox;
    for (int i = 0; i < 20; ++i) {
      const UniqueFd connection = connect_silently(inbox.name());
      EXPECT_GT(::send(connection.get(), "short", 5, MSG_NOSIGNAL), 0);
      EXPECT_FALSE(inbox.take(kInboxLabel, milliseconds(0)));
    }
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DescriptorInbox, TellsThatTheReceiverHasGone) {
  std::uint64_t name = 0;
  {
    DescriptorInbox inbox;
    name = inbox.name();
  }
  const UniqueFd memory = create_segment(4096);
  EXPECT_FALSE(send_descriptor(name, kInboxLabel, memory.get(), Deadline::never()));
}

TEST(SharedSegment, IsRefusedWhereItCouldShrinkOrHasAnotherSize) {
  const UniqueFd sealed = create_segment(8192);
  EXPECT_THROW(check_segment(sealed.get(), 4096), Error);
  EXPECT_NE(::ftruncate(sealed.get(), 0), 0);
  const UniqueFd open(::memfd_create("lockstep-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 4096), 0);
  EXPECT_THROW(check_segment(open.get(), 4096), Error);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  EXPECT_THROW(check_segment(read_end.get(), 4096), Error);
}

}  // namespace
}  // namespace lockstep::shm
