//! Words that make a credential's name of any name that holds one.

/// Where one of these is in a name, letters and digits alone and in lower case, the name is a credential's: those that
/// begin with `initial`.
pub(super) fn stems(initial: u8) -> &'static [&'static str] {
    match initial {
        b'a' => {
            &["activationkey", "aeskey", "authcode", "accesskey", "accountkey", "apikey", "appkey", "authkey"]
        }
        b'b' => &["backupcode", "bearer"],
        b'c' => &[
            "clientassertion",
            "clientkey",
            "codeverifier",
            "contrase",
            "connectionkey",
            "consumerkey",
            "creds",
            "credential",
            "csrf",
        ],
        b'e' => &["encryptionkey"],
        b'h' => &["heslo", "hmackey"],
        b'j' => &["jwt"],
        b'k' => &["kennwort"],
        b'm' => &["masterkey", "mnemonic"],
        b'o' => &["openaikey"],
        b'p' => &[
            "pswd",
            "psswd",
            "passcode",
            "passkey",
            "passphrase",
            "passwd",
            "password",
            "passwort",
            "pincode",
            "privatekey",
            "pwd",
        ],
        b'r' => &["recoverycode"],
        b's' => &[
            "sshkey",
            "sessid",
            "secret",
            "senha",
            "seedphrase",
            "servicekey",
            "sessionid",
            "sessionkey",
            "sharedkey",
            "signingkey",
            "storagekey",
            "stripekey",
            "subscriptionkey",
        ],
        b't' => &["token"],
        b'd' => &["deploykey"],
        b'l' => &["licensekey"],
        b'w' => &["wachtwoord"],
        b'v' => &["verificationcode"],
        _ => &[],
    }
}
