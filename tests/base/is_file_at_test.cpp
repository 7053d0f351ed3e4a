#include "lockstep/base/files/is_file_at.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/unique_fd.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(IsFileAt, SeesThatAFileWasRemovedOrReplaced) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_file_atomically(path, "same");
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(is_file_at(fd.get(), path));
  std::filesystem::create_symlink(path, folder / "link");
  EXPECT_TRUE(is_file_at(fd.get(), folder / "link"));
  write_file_atomically(path, "same");  // another file of that name and content
  EXPECT_FALSE(is_file_at(fd.get(), path));
  std::filesystem::remove(path);
  EXPECT_FALSE(is_file_at(fd.get(), path));
  EXPECT_FALSE(is_file_at(-1, folder / "link"));
}

}  // namespace
}  // namespace lockstep
