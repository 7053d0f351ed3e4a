// Tests which descriptor a rank takes for the memory that its launcher holds.
#include "lockstep/net/worlds/job_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace lockstep {
namespace {

class JobMemoryOfRank : public ::testing::Test {
 protected:
  ~JobMemoryOfRank() override { ::unsetenv(kJobMemoryVariable); }
  static int found(const std::string& variable) {
    ::setenv(kJobMemoryVariable, variable.c_str(), 1);
    return job_memory_of_rank();
  }
  static int found(int file) { return found(std::to_string(file)); }
  static UniqueFd memory(const char* name, int seals) {
    UniqueFd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    return file;
  }
};

TEST_F(JobMemoryOfRank, IsTheLaunchers) {
  const UniqueFd file = make_job_memory();
  ASSERT_TRUE(file);
  ASSERT_EQ(::fcntl(file.get(), F_SETFD, 0), 0);
  EXPECT_EQ(found(file.get()), file.get());
  EXPECT_EQ(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC) << "programs of the rank would inherit it";
  EXPECT_EQ(steps_in_memory(file.get()), std::nullopt);
}

// A program between launcher and rank has closed it, and the number means something else now.
TEST_F(JobMemoryOfRank, IsNothingElseOfThatNumber) {
  EXPECT_EQ(found(memory("lockstep-job", F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL).get()), -1);
  EXPECT_EQ(found(memory("another", F_SEAL_SHRINK).get()), -1);
  EXPECT_EQ(found(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)).get()), -1);
  const int closed = make_job_memory().get();
  EXPECT_EQ(found(closed), -1);
  EXPECT_EQ(found(STDERR_FILENO), -1);
  EXPECT_EQ(found(""), -1);
}

}  // namespace
}  // namespace lockstep
