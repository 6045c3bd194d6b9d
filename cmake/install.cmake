# cmake --install: the header, both libraries with a pkg-config file, the program, its completion and the demo model.
include(GNUInstallDirs)

install(TARGETS sluice LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS sluice_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS sluice_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/sluice/sluice.h include/sluice/status.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice)

# The installed tree can be moved: its pkg-config file finds it from its own place.
file(RELATIVE_PATH SL_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/sluice.pc.in ${CMAKE_BINARY_DIR}/sluice.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/sluice.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The script comes out of the program's own table of flags.
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/completion/sluice
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/completion
  COMMAND sluice_cli completion bash > ${CMAKE_BINARY_DIR}/completion/sluice
  DEPENDS sluice_cli)
add_custom_target(completion ALL DEPENDS ${CMAKE_BINARY_DIR}/completion/sluice)
install(FILES ${CMAKE_BINARY_DIR}/completion/sluice DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

if(EXISTS ${CMAKE_SOURCE_DIR}/models/demo/config.json)
  install(DIRECTORY models/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/models)
endif()
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
