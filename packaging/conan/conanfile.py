"""Lockstep as a package of Conan 2, made from the checkout that this file lies in: conan create packaging/conan

LibTorch is not a requirement, because the version of the build must be the one that programs use. The option `torch` names
it as LOCKSTEP_TORCH does (docs/building.md): the system's, or the folder of an unpacked one.
"""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

required_conan_version = ">=2.4"
CHECKOUT = os.path.join("..", "..")


class LockstepConan(ConanFile):
    name = "lockstep"
    description = "Data-parallel training for C++ on LibTorch"
    license = "Apache-2.0"
    topics = ("distributed-training", "data-parallel", "libtorch", "pytorch")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "torch": ["system", "ANY"]}
    default_options = {"shared": False, "torch": "system"}

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, CHECKOUT, "include", "lockstep", "version.h"))
        self.version = ".".join(re.findall(r"define LOCKSTEP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

    def export_sources(self):
        checkout = os.path.join(self.recipe_folder, CHECKOUT)
        for pattern in ("CMakeLists.txt", "LICENSE", "bench/*", "cmake/*", "data/*", "examples/*", "include/*", "src/*", "tools/*"):
            copy(self, pattern, checkout, self.export_sources_folder, excludes="*/__pycache__/*")

    def requirements(self):
        # Public headers include it, with the module models or train.
        self.requires("nlohmann_json/[>=3.11 <4]", transitive_headers=True)
        for library in ("fmt/[>=9 <13]", "spdlog/[>=1.10 <2]", "openssl/[>=3 <4]", "zlib/[>=1.2.11 <2]", "icu/[>=72]",
                        "snappy/[>=1.1.9 <2]", "zstd/[>=1.5 <2]", "simdjson/[>=3 <5]", "cli11/[>=2.3 <3]", "yaml-cpp/[>=0.7 <1]"):
            self.requires(library)

    def validate(self):
        check_min_cppstd(self, 17)
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("Lockstep runs on Linux alone")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({"LOCKSTEP_TORCH": str(self.options.torch), "LOCKSTEP_TESTS": False,
                                          "CMAKE_UNITY_BUILD": True, "CMAKE_UNITY_BUILD_BATCH_SIZE": "32"})
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # Lockstep's own files describe its components: find_package(Lockstep COMPONENTS parallel).
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "Lockstep")]
        self.cpp_info.includedirs = []
        self.cpp_info.libdirs = []
