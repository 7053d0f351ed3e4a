#include "lockstep/net/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "tests/net/net_fixtures.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::error_of;
using testing::ScopedVariable;

std::string file_with(const TemporaryFolder& folder, const std::string& content, mode_t mode) {
  const std::string path = folder / "secret";
  std::ofstream(path) << content;
  ::chmod(path.c_str(), mode);
  return path;
}

TEST(SecretTest, FreshSecretsAre256BitsAndDiffer) {
  const std::string secret = make_secret();
  EXPECT_EQ(secret.size(), 64U);
  EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(secret, make_secret());
}

TEST(SecretTest, ComesFromTheVariableOrTheFile) {
  EXPECT_EQ(secret_from_environment(), "");
  TemporaryFolder folder;
  const ScopedVariable file("LOCKSTEP_SECRET_FILE", file_with(folder, " 0123456789abcdef of a file \n", 0600));
  EXPECT_EQ(secret_from_environment(), "0123456789abcdef of a file");
  const ScopedVariable variable("LOCKSTEP_SECRET", "0123456789abcdef");
  EXPECT_EQ(secret_from_environment(), "0123456789abcdef");
}

TEST(SecretTest, FilesThatOthersCanReadAreRefused) {
  TemporaryFolder folder;
  for (const mode_t mode : {0644U, 0640U, 0604U, 0620U}) {
    const ScopedVariable file("LOCKSTEP_SECRET_FILE", file_with(folder, "0123456789abcdef", mode));
    const std::string text = error_of([] { secret_from_environment(); });
    EXPECT_NE(text.find("chmod 600"), std::string::npos) << text;
    EXPECT_EQ(text.find("0123456789abcdef"), std::string::npos) << text;
  }
}

TEST(SecretTest, MissingFilesFoldersAndShortSecretsAreRefused) {
  TemporaryFolder folder;
  {
    const ScopedVariable file("LOCKSTEP_SECRET_FILE", folder / "none");
    EXPECT_NE(error_of([] { secret_from_environment(); }).find(folder / "none"), std::string::npos);
  }
  {
    const ScopedVariable file("LOCKSTEP_SECRET_FILE", folder.path());
    EXPECT_NE(error_of([] { secret_from_environment(); }).find("no regular file"), std::string::npos);
  }
  const ScopedVariable variable("LOCKSTEP_SECRET", "too short");
  const std::string text = error_of([] { secret_from_environment(); });
  EXPECT_NE(text.find("9 characters"), std::string::npos) << text;
  EXPECT_EQ(text.find("too short"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
