// Too little memory, too few descriptors: an Error on every rank, no SIGBUS, and a group that stays usable.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

constexpr std::int64_t kScarceFloats = 4 << 20;

// From now on, this system call fails with `code` in this process, as if the kernel had no memory left.
bool deny(long system_call, int code) {
  const auto number = static_cast<std::uint32_t>(system_call);
  std::array<sock_filter, 4> filter = {{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(code)},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool can_deny() {
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(deny(SYS_fallocate, ENOSPC) && ::syscall(SYS_fallocate, 0, 0, 0, 1) < 0 && errno == ENOSPC ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0;
}

void limit(__rlimit_resource what, rlim_t value) {
  rlimit limits{};
  ::getrlimit(what, &limits);
  limits.rlim_cur = value;
  if (::setrlimit(what, &limits) != 0) throw std::runtime_error("setrlimit: " + errno_text(errno));
}

// Leaves no free descriptor.
void use_up_descriptors() {
  const int next = ::dup(0);
  ::close(next);
  limit(RLIMIT_NOFILE, static_cast<rlim_t>(next));
}

struct Scarcity {
  const char* name;
  bool seccomp;
  std::function<void()> begin;
  const char* says;  // text of the error on the rank with the shortage
  friend std::ostream& operator<<(std::ostream& out, const Scarcity& s) { return out << s.name; }
};

std::vector<Scarcity> scarcities() {
  const auto denied = [](const char* name, long system_call, int code, const char* says) {
    return Scarcity{name, true,
                    [=] {
                      if (!deny(system_call, code)) throw std::runtime_error("seccomp: " + errno_text(errno));
                    },
                    says};
  };
  return {
      denied("file_system_full", SYS_fallocate, ENOSPC, "do not fit"),
      denied("no_memory", SYS_fallocate, ENOMEM, "do not fit"),
      {"address_space_limited", false, [] { limit(RLIMIT_AS, 1); }, "cannot map"},
      {"no_descriptors", false, [] { use_up_descriptors(); }, "limit of open files"},
  };
}

class ScarceMemory : public ::testing::TestWithParam<Scarcity> {
 protected:
  void SetUp() override {
    if (GetParam().seccomp && !can_deny()) GTEST_SKIP() << "this sandbox allows no seccomp filters";
    const std::string name = GetParam().name;
    if (name == "address_space_limited" && (kThreadSanitizer || kAddressSanitizer)) {
      GTEST_SKIP() << "the sanitizer itself needs address space";
    }
    if (name == "no_descriptors" && kAddressSanitizer) {
      GTEST_SKIP() << "the check of undefined behaviour opens a pipe to look at objects";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Table, ScarceMemory, ::testing::ValuesIn(scarcities()),
                         [](const auto& test) { return std::string(test.param.name); });

// Some sandboxes have no fallocate(2).
TEST(SharedMemory, DoesWithoutTheCallThatReservesPages) {
  if (!can_deny()) GTEST_SKIP() << "this sandbox allows no seccomp filters";
  for (const int code : {ENOSYS, EPERM}) {
    const auto body = [&](const Membership& membership) {
      if (!deny(SYS_fallocate, code)) throw std::runtime_error("seccomp: " + errno_text(errno));
      const auto group = make_communicator("shm", membership);
      at::Tensor shared = group->allocate({kScarceFloats}, at::kFloat);
      shared.fill_(membership.rank + 1);
      group->all_reduce(shared);
      EXPECT_EQ(shared[kScarceFloats - 1].item<float>(), 6.0F);
    };
    run_ranks_as_processes(3, body);
  }
}

TEST(SharedMemory, NamesTheCallThatIsNotThere) {
  if (!can_deny()) GTEST_SKIP() << "this sandbox allows no seccomp filters";
  for (const auto& [call, name] :
       {std::pair<long, const char*>{SYS_memfd_create, "memfd_create"}, {SYS_pidfd_open, "pidfd_open"}}) {
    const auto ends = ranks_as_processes(2, [call = call](const Membership& membership) {
      if (!deny(call, ENOSYS)) throw std::runtime_error("seccomp: " + errno_text(errno));
      make_communicator("shm", membership);
    });
    // One of them may be faster, and the other gets its loss.
    EXPECT_TRUE(ends[0].failed && ends[1].failed);
    EXPECT_NE((ends[0].text + ends[1].text).find(name), std::string::npos) << ends[0].text << ends[1].text;
  }
}

TEST_P(ScarceMemory, OnOneRankIsAnErrorOnAllAndTheGroupLivesOn) {
  for (const int poor : {0, 2}) {
    const auto body = [&](const Membership& membership) {
      const auto group = make_communicator("shm", membership);
      at::Tensor plain = at::ones({100000});
      group->all_reduce(plain);  // which the first one needs
      if (membership.rank == poor) GetParam().begin();
      std::string text;
      try {
        group->allocate({kScarceFloats}, at::kFloat);
      } catch (const Error& error) {
        text = error.what();
      }
      const char* says = membership.rank == poor ? GetParam().says : "could not allocate";
      EXPECT_NE(text.find(says), std::string::npos) << "rank " << membership.rank << ": " << text;
      group->all_reduce(plain);
      EXPECT_EQ(plain[7].item<float>(), 9.0F);
    };
    const auto ends = ranks_as_processes(3, body);
    for (const RankOutcome& end : ends) EXPECT_FALSE(end.failed) << end.text << " signal " << end.signal;
  }
}

TEST(ScarceMemoryOfJoining, IsAnErrorThatNamesTheRankOnTheOthers) {
  if (!can_deny()) GTEST_SKIP() << "this sandbox allows no seccomp filters";
  const auto ends = ranks_as_processes(3, [](const Membership& membership) {
    if (membership.rank == 0) deny(SYS_fallocate, ENOSPC);
    make_communicator("shm", membership);
  });
  EXPECT_NE(ends[0].text.find("do not fit"), std::string::npos) << ends[0].text;
  for (const int other : {1, 2}) {
    const RankOutcome& end = ends[static_cast<std::size_t>(other)];
    EXPECT_FALSE(end.timed_out);
    EXPECT_NE(end.text.find("lost rank 0"), std::string::npos) << end.text;
  }
}

// The kernel would end the process with SIGXFSZ.
TEST(ScarceMemoryOfFiles, LimitedInSizeAreAnError) {
  const auto ends = ranks_as_processes(2, [](const Membership& membership) {
    const auto group = make_communicator("shm", membership);
    limit(RLIMIT_FSIZE, 1 << 20);
    EXPECT_THROW(group->allocate({kScarceFloats}, at::kFloat), Error);
    group->barrier();
  });
  for (const RankOutcome& end : ends) EXPECT_FALSE(end.failed) << end.text << " signal " << end.signal;
}

TEST(ScarceMemoryOfTheHost, MoreThanThereIsIsAnError) {
  for (const char* engine : {"shm", "thread"}) {
    const auto body = [&](const Membership& membership) {
      const auto group = make_communicator(engine, membership);
      EXPECT_THROW(group->allocate({std::int64_t{1} << 44}, at::kFloat), Error);
      EXPECT_THROW(group->allocate({std::int64_t{1} << 61}, at::kDouble), Error);
      group->barrier();
    };
    const bool threads = engine == std::string("thread");
    const auto ends = threads ? ranks_as_threads(2, body) : ranks_as_processes(2, body);
    for (const RankOutcome& end : ends) EXPECT_FALSE(end.failed) << engine << ": " << end.text;
  }
}

}  // namespace
}  // namespace lockstep
