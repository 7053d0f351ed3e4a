#include "lockstep/base/files/create_folders.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(CreateFolders, MakesThoseAboveAndLeavesWhatIsThere) {
  const TemporaryFolder folder;
  create_folders(folder / "a/b");
  write_file_atomically(folder / "a/b/file", "x");
  create_folders(folder / "a/b");
  EXPECT_EQ(read_file(folder / "a/b/file"), "x");
}

TEST(CreateFolders, SayWhichFolderAndWhy) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "x");
  for (const std::string& path : {folder / "file", folder / "file/below"}) {
    try {
      create_folders(path);
      ADD_FAILURE() << path << " was made";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(path + ": Not a directory"), std::string::npos) << text;
      EXPECT_NE(text.find("name another folder"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(read_file(folder / "file"), "x");
}

}  // namespace
}  // namespace lockstep
