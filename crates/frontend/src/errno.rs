//! The texts of error numbers, as GNU's programs print them. A program that is linked with another C library says the same.

use haul_sys::Errno;

/// What musl words otherwise, of the numbers that the calls of a copy return.
const OF_GNU: &[(Errno, &str)] = &[
    (Errno::IO, "Input/output error"),
    (Errno::NXIO, "No such device or address"),
    (Errno::NOMEM, "Cannot allocate memory"),
    (Errno::BUSY, "Device or resource busy"),
    (Errno::XDEV, "Invalid cross-device link"),
    (Errno::NFILE, "Too many open files in system"),
    (Errno::MFILE, "Too many open files"),
    (Errno::NOTTY, "Inappropriate ioctl for device"),
    (Errno::SPIPE, "Illegal seek"),
    (Errno::RANGE, "Numerical result out of range"),
    (Errno::DEADLK, "Resource deadlock avoided"),
    (Errno::NAMETOOLONG, "File name too long"),
    (Errno::NOSYS, "Function not implemented"),
    (Errno::LOOP, "Too many levels of symbolic links"),
    (Errno::NODATA, "No data available"),
    (Errno::TIME, "Timer expired"),
    (Errno::OVERFLOW, "Value too large for defined data type"),
    (Errno::BADMSG, "Bad message"),
    (Errno::ILSEQ, "Invalid or incomplete multibyte or wide character"),
    (Errno::OPNOTSUPP, "Operation not supported"),
    (Errno::TIMEDOUT, "Connection timed out"),
    (Errno::HOSTDOWN, "Host is down"),
    (Errno::HOSTUNREACH, "No route to host"),
    (Errno::STALE, "Stale file handle"),
    (Errno::UCLEAN, "Structure needs cleaning"),
    (Errno::REMOTEIO, "Remote I/O error"),
    (Errno::DQUOT, "Disk quota exceeded"),
    (Errno::CANCELED, "Operation canceled"),
];

/// The text for an errno: GNU's where another C library has its own, else that of the C library.
pub fn strerror(errno: Errno) -> String {
    match OF_GNU.iter().find(|(number, _)| *number == errno) {
        Some((_, text)) => (*text).to_owned(),
        None => of_library(errno),
    }
}

fn of_library(errno: Errno) -> String {
    let code = errno.raw_os_error();
    let text = std::io::Error::from_raw_os_error(code).to_string();
    text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_env = "gnu")]
    fn the_texts_are_those_of_the_gnu_c_library() {
        for (errno, text) in OF_GNU {
            assert_eq!(*text, of_library(*errno));
        }
    }

    #[test]
    fn an_error_number_without_a_text_of_its_own_has_that_of_the_library() {
        assert_eq!(strerror(Errno::NOENT), "No such file or directory");
        assert_eq!(strerror(Errno::IO), "Input/output error");
    }
}
