# The layout is the architecture: a folder of src/ is a layer, an object library of its own, and sees the headers of
# the folders below it and no others.  So an include that points upwards does not compile.
#
#   sl_layer(ops SOURCES check.c BELOW tensor base [LIBS PkgConfig::X])
#
# defines the target sl_ops.  `BELOW` names every folder whose headers it may include.

set(SL_VIEWS ${CMAKE_BINARY_DIR}/layers) # one folder a layer, holding a link to that layer's sources and nothing else

add_library(sl_flags INTERFACE)
target_compile_options(sl_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror
  -fno-math-errno -ffp-contract=off -g)
target_compile_definitions(sl_flags INTERFACE _GNU_SOURCE)
target_include_directories(sl_flags INTERFACE ${CMAKE_SOURCE_DIR}/include)
if(SLUICE_SANITIZE)
  target_compile_options(sl_flags INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(sl_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()

function(sl_view layer)
  file(MAKE_DIRECTORY ${SL_VIEWS}/${layer})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${layer} ${SL_VIEWS}/${layer}/${layer} SYMBOLIC)
endfunction()

function(sl_layer name)
  cmake_parse_arguments(L "" "" "SOURCES;BELOW;LIBS" ${ARGN})
  if(NOT L_SOURCES)
    return()
  endif()
  add_library(sl_${name} OBJECT ${L_SOURCES})
  target_link_libraries(sl_${name} PRIVATE sl_flags Threads::Threads ${L_LIBS})
  foreach(seen ${name} ${L_BELOW})
    sl_view(${seen})
    target_include_directories(sl_${name} PRIVATE ${SL_VIEWS}/${seen})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY SL_LAYERS sl_${name})
endfunction()

# A unit test over some layers: sl_test(pool SOURCES test_pool.c LAYERS base) makes test_pool and registers it.
function(sl_test name)
  cmake_parse_arguments(T "" "" "SOURCES;LAYERS;LABELS" ${ARGN})
  add_executable(test_${name} ${T_SOURCES})
  target_link_libraries(test_${name} PRIVATE sl_flags Threads::Threads PkgConfig::CMOCKA PkgConfig::JANSSON
    m)
  foreach(layer ${T_LAYERS})
    target_sources(test_${name} PRIVATE $<TARGET_OBJECTS:sl_${layer}>)
    target_include_directories(test_${name} PRIVATE ${SL_VIEWS}/${layer})
  endforeach()
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(T_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}")
  endif()
endfunction()
