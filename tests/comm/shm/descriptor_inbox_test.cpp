// Memory that is passed from process to process: its receivers, and the senders that are refused.
#include "lockstep/comm/shm/memory/descriptor_inbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/shm/memory/memory_segment.h"
#include "lockstep/net/sockets/unix_address.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::shm {
namespace {

using std::chrono::milliseconds;

const Label kInboxLabel{{11, 22}, 33};

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Connects to the socket at `path` and sends nothing; without a descriptor if that fails, and errno says why.
UniqueFd connect_silently(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return UniqueFd();
  return fd;
}

// Leaves the file of a socket that no process has.
bool leave_dead_socket(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

std::size_t sockets_in(const std::string& folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
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
  const UniqueFd silent = connect_silently(inbox_path(inbox.name()));
  ASSERT_TRUE(silent);
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
  // It knows the path, and cannot even connect; so it cannot fill the queue.
  const std::string path = inbox_path(inbox.name());
  const int rude = in_child([&] {
    if (::setgid(4711) != 0 || ::setuid(4711) != 0) return 2;
    return !connect_silently(path) && errno == EACCES ? 0 : 1;
  });
  EXPECT_EQ(rude, 0);
  EXPECT_FALSE(inbox.take(kInboxLabel, milliseconds(5)));
}

TEST(DescriptorInbox, LeavesNoFileAndRemovesThoseOfKilledProcesses) {
  const TemporaryFolder runtime;
  const int status = in_child([&] {  // has its own environment
    ::setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
    const std::string folder = runtime / "lockstep";
    ::mkdir(folder.c_str(), 0700);
    // Looks like a live socket of another host does where hosts share a file system; it must stay.
    if (!leave_dead_socket(folder + "/inbox-00000000-0123456789abcdef")) return 8;
    if (in_child([] {
          new DescriptorInbox;  // lost with its process
          return 0;
        }) != 0) {
      return 1;
    }
    if (sockets_in(folder) != 2) return 2;
    {
      const DescriptorInbox first;
      if (sockets_in(folder) != 2) return 3;
      const DescriptorInbox second;  // does not take the first for a dead one
      if (sockets_in(folder) != 3) return 4;
      if (in_child([&] {
            const_cast<DescriptorInbox&>(second).~DescriptorInbox();  // a copy, as in every fork
            return 0;
          }) != 0) {
        return 5;
      }
      if (sockets_in(folder) != 3) return 6;
    }
    return sockets_in(folder) == 1 ? 0 : 7;
  });
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(WIFEXITED(status));
}

TEST(DescriptorInbox, IsNotSoughtInAnotherFolderOfARank) {
  const TemporaryFolder elsewhere;
  const auto ends = ranks_as_processes(2, [&](const Membership& membership) {
    if (membership.rank == 1) ::setenv("XDG_RUNTIME_DIR", elsewhere.path().c_str(), 1);
    make_communicator("shm", membership);
  });
  EXPECT_TRUE(ends[0].failed && ends[1].failed);
  EXPECT_NE(ends[0].text.find("rank 1 has its sockets in " + elsewhere / "lockstep"), std::string::npos)
      << ends[0].text;
  EXPECT_NE(ends[0].text.find("XDG_RUNTIME_DIR"), std::string::npos) << ends[0].text;
}

TEST(DescriptorInbox, KeepsNothingThatIsMalformed) {
  const std::size_t before = open_descriptors();
  {
    DescriptorInbox inbox;
    for (int i = 0; i < 20; ++i) {
      const UniqueFd connection = connect_silently(inbox_path(inbox.name()));
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
