#include "lockstep/net/sockets/runtime_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/net/net_fixtures.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::error_of;
using testing::ScopedVariable;

constexpr uid_t kStranger = 12345;

class SharedPlace : public ::testing::Test {
 protected:
  std::string name(int number) const {
    const std::string first = place_ / fmt::format("lockstep-{}", ::geteuid());
    return number == 0 ? first : fmt::format("{}-{}", first, number);
  }
  void occupy(int number) const {
    ASSERT_EQ(::mkdir(name(number).c_str(), 0755), 0);
    ASSERT_EQ(::chown(name(number).c_str(), kStranger, kStranger), 0);
  }
  const TemporaryFolder place_;
  const ScopedVariable no_runtime_{"XDG_RUNTIME_DIR", ""};
  const ScopedVariable temporary_{"TMPDIR", place_.path()};
};

TEST_F(SharedPlace, GetsAFolderForThisUserAlone) {
  EXPECT_EQ(private_runtime_folder(), name(0));
  struct stat status {};
  ASSERT_EQ(::lstat(name(0).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700U);
  ASSERT_EQ(::chmod(name(0).c_str(), 0755), 0);
  const std::string open = error_of([] { private_runtime_folder(); });
  EXPECT_NE(open.find("mode 0755"), std::string::npos) << open;
}

TEST_F(SharedPlace, IsNoFolderForALink) {
  std::filesystem::create_symlink("/", name(0));
  const std::string text = error_of([] { private_runtime_folder(); });
  EXPECT_NE(text.find("is not a folder"), std::string::npos) << text;
}

// Processes of one job ask at different times: what a stranger does in between must not part them.
TEST_F(SharedPlace, IsSharedWithUsersWhoTakeTheNameFirst) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's folder";
  occupy(0);
  EXPECT_EQ(private_runtime_folder(), name(1));
  std::filesystem::remove(name(0));
  EXPECT_EQ(private_runtime_folder(), name(1));
  for (const int number : {0, 2, 3}) occupy(number);
  EXPECT_EQ(private_runtime_folder(), name(1));
}

TEST_F(SharedPlace, HasAnErrorForUsersWhoTakeAllNames) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's folder";
  for (int number = 0; number < 16; ++number) occupy(number);
  const std::string text = error_of([] { private_runtime_folder(); });
  EXPECT_NE(text.find("belong to another user"), std::string::npos) << text;
  EXPECT_NE(text.find("XDG_RUNTIME_DIR"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
