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
  const ScopedVariable file("LOCKSTEP_SECRET_FILE", file_with(folder, " 0123456789abcdef0123456789abcdef\n", 0600));
  EXPECT_EQ(secret_from_environment(), "0123456789abcdef0123456789abcdef");
  const std::string made = make_secret();
  const ScopedVariable variable("LOCKSTEP_SECRET", made);
  EXPECT_EQ(secret_from_environment(), made);
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

TEST(SecretTest, MissingFilesAndFoldersAreRefused) {
  TemporaryFolder folder;
  {
    const ScopedVariable file("LOCKSTEP_SECRET_FILE", folder / "none");
    EXPECT_NE(error_of([] { secret_from_environment(); }).find(folder / "none"), std::string::npos);
  }
  const ScopedVariable file("LOCKSTEP_SECRET_FILE", folder.path());
  EXPECT_NE(error_of([] { secret_from_environment(); }).find("not a regular file"), std::string::npos);
}

TEST(SecretTest, WhatAPersonCouldHaveChosenIsRefused) {
  for (const std::string chosen :
       {"too short", "0123456789abcdef0123456789abcde", "correct horse battery staple, correct"}) {
    const ScopedVariable variable("LOCKSTEP_SECRET", chosen);
    const std::string text = error_of([] { secret_from_environment(); });
    EXPECT_NE(text.find(std::to_string(chosen.size()) + " characters"), std::string::npos) << text;
    EXPECT_NE(text.find("openssl rand -hex 32"), std::string::npos) << text;
    EXPECT_EQ(text.find(chosen), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace lockstep
